# The image of one static binary. `make image` builds the same from dist/image,
# a context of the binary and the authorities that prove S3 stores; by hand:
#   CGO_ENABLED=0 go build -o dist/image/rota ./cmd/rota
#   mkdir -p dist/image/data
#   cp /etc/ssl/certs/ca-certificates.crt dist/image/
#   docker build -t rota:dev -f Dockerfile dist/image
FROM scratch
COPY rota /rota
COPY ca-certificates.crt /etc/ssl/certs/
# A volume on /data starts as this directory does: the account's own.
COPY --chown=65532:65532 data/ /data/
USER 65532:65532
# Leadership is handed over and streams are drained.
STOPSIGNAL SIGTERM
# The node's own socket asks for no certificate or token, whatever the node listens on: for
# `server --data /data`. Other commands turn it off (--no-healthcheck).
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s --retries=3 \
  CMD ["/rota", "cluster", "status", "--addr=unix:/data/rota.sock", "--timeout=5s"]
ENTRYPOINT ["/rota"]
