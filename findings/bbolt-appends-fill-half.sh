#!/usr/bin/env bash
# bbolt: keys that are only appended leave every page half empty.
#
# Guess: a B+tree that gets keys in ascending order fills its pages, since nothing is ever inserted between two of them.
# Seen: a page is split in the middle whatever the order, and the lower half is never filled. FillPercent 1.0, to be set
#   on the bucket in each transaction, nearly halves the pages. It is not stored in the file.
# Versions: go.etcd.io/bbolt v1.5.0. Date: 2026-11-29.
# Why it matters: a Raft log in bbolt is exactly this load, so half of what is written and mapped is empty space.
. "$(dirname "$0")/lib.sh"
go_modules go.etcd.io/bbolt@v1.5.0
cat >main.go <<'GO'
package main

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

func fill(name string, percent float64) {
	db, err := bolt.Open(name, 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	for batch := range 200 {
		err := db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("log"))
			if err != nil {
				return err
			}
			if percent > 0 {
				b.FillPercent = percent
			}
			for i := range 100 {
				key := binary.BigEndian.AppendUint64(nil, uint64(batch*100+i))
				if err := b.Put(key, make([]byte, 100)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			panic(err)
		}
	}
	_ = db.View(func(tx *bolt.Tx) error {
		s := tx.Bucket([]byte("log")).Stats()
		fmt.Printf("%s used %d%%\n", name, 100*s.LeafInuse/s.LeafAlloc)
		return nil
	})
}

func main() {
	fill("default", 0)
	fill("full", 1)
}
GO
out=$(go_run)
echo "go.etcd.io/bbolt v1.5.0"
same "default: part of the leaf pages that is used is below 55 %" "$(awk '/^default/ { print ($3 + 0 < 55) }' <<<"$out")" "1"
same "FillPercent 1.0: above 90 %" "$(awk '/^full/ { print ($3 + 0 > 90) }' <<<"$out")" "1"
