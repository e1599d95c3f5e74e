package rota

import (
	"crypto/ed25519"
	"encoding/binary"
	"time"
)

// attestationDomain ensures that a signature over an attestation is not valid for anything else that the same key
// signs.
const attestationDomain = "rota|attestation|1"

// Attest returns a key holder's signed statement that a worker may serve a cluster until a date, with a stake in
// millionths of a unit (SPEC §6.5). The key is an Ed25519 private key of 64 bytes.
func Attest(key ed25519.PrivateKey, cluster ClusterID, worker WorkerID, expires Date, stake int64) (Attestation, error) {
	if len(key) != ed25519.PrivateKeySize {
		return Attestation{}, Refusef(KindInvalid, "key", "key: got %d bytes, want the %d of an Ed25519 private key", len(key),
			ed25519.PrivateKeySize)
	}
	if err := CheckID("cluster_id", cluster); err != nil {
		return Attestation{}, err
	}
	if err := CheckID("worker", worker); err != nil {
		return Attestation{}, err
	}
	if expires <= 0 || expires > maxExpiry {
		return Attestation{}, OutOfRange("expires_ms", int64(expires), 1, int64(maxExpiry))
	}
	if stake < 0 || stake > MaxFee {
		return Attestation{}, OutOfRange("stake", stake, 0, MaxFee)
	}
	a := Attestation{Cluster: cluster, Worker: worker, Expires: expires, Stake: stake, Key: Hex(key.Public().(ed25519.PublicKey))}
	a.Signature = ed25519.Sign(key, a.message())
	return a, nil
}

// maxExpiry keeps dates far from overflow, like those of jobs.
const maxExpiry Date = 1 << 46

// message returns the signed bytes: the domain, then each part after its length, so that no two attestations have the
// same bytes.
func (a *Attestation) message() []byte {
	b := []byte(attestationDomain)
	for _, part := range []string{string(a.Cluster), string(a.Worker)} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(a.Expires))
	return binary.BigEndian.AppendUint64(b, uint64(a.Stake))
}

// CheckShape rejects an attestation whose fields are malformed, independently of its signer.
func (a *Attestation) CheckShape() error {
	switch {
	case len(a.Key) != ed25519.PublicKeySize:
		return Refusef(KindInvalid, "attestation.key", "attestation.key: got %d bytes, want %d", len(a.Key),
			ed25519.PublicKeySize)
	case len(a.Signature) != ed25519.SignatureSize:
		return Refusef(KindInvalid, "attestation.signature", "attestation.signature: got %d bytes, want %d",
			len(a.Signature), ed25519.SignatureSize)
	case !ValidID(string(a.Cluster)):
		return CheckID("attestation.cluster_id", a.Cluster)
	case !ValidID(string(a.Worker)):
		return CheckID("attestation.worker", a.Worker)
	case a.Expires <= 0 || a.Expires > maxExpiry:
		return OutOfRange("attestation.expires_ms", int64(a.Expires), 1, int64(maxExpiry))
	case a.Stake < 0 || a.Stake > MaxFee:
		return OutOfRange("attestation.stake", a.Stake, 0, MaxFee)
	}
	return nil
}

// Verify returns an error if an attestation does not allow a worker to serve a cluster at a date, given the keys in the
// cluster's configuration. Kind Invalid: it is malformed. Kind Denied: it is for another cluster or worker, expired,
// signed by an unknown key, or has a wrong signature; the text says which.
func (a *Attestation) Verify(keys []ed25519.PublicKey, cluster ClusterID, worker WorkerID, now Date) error {
	if err := a.CheckShape(); err != nil {
		return err
	}
	switch {
	case a.Cluster != cluster:
		return Refusef(KindDenied, "attestation.cluster_id", "the attestation is for cluster %q, and this cluster is %q", a.Cluster,
			cluster)
	case a.Worker != worker:
		return Refusef(KindDenied, "attestation.worker", "the attestation is for worker %q, and this worker is %q", a.Worker, worker)
	}
	known := false
	for _, k := range keys {
		known = known || k.Equal(ed25519.PublicKey(a.Key))
	}
	switch {
	case !known:
		return Refusef(KindDenied, "attestation.key", "the attestation is signed by key %s, which the cluster's configuration "+
			"does not name", a.Key)
	case !ed25519.Verify(ed25519.PublicKey(a.Key), a.message(), a.Signature):
		return Refusef(KindDenied, "attestation.signature", "the attestation's signature is wrong: it was changed after it was signed")
	case a.Expires <= now:
		return Refusef(KindDenied, "attestation.expires_ms", "the attestation expired at %s, and it is %s now: create a new one",
			dateText(a.Expires), dateText(now))
	}
	return nil
}

func dateText(d Date) string { return time.UnixMilli(int64(d)).UTC().Format(time.RFC3339) }
