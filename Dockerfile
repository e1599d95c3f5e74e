# The image of one static binary. `make image` builds the same from dist/image,
# a context of nothing but the binary; by hand:
#   CGO_ENABLED=0 go build -o dist/image/rota ./cmd/rota
#   mkdir -p dist/image/data
#   docker build -t rota:dev -f Dockerfile dist/image
FROM scratch
COPY rota /rota
# A volume on /data starts as this directory does: the account's own.
COPY --chown=65532:65532 data/ /data/
USER 65532:65532
ENTRYPOINT ["/rota"]
