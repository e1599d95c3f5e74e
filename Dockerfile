# The image of one static binary. `make image` builds the same from dist/image,
# a context of nothing but the binary; by hand:
#   CGO_ENABLED=0 go build -o dist/image/rota ./cmd/rota
#   docker build -t rota:dev -f Dockerfile dist/image
FROM scratch
COPY rota /rota
ENTRYPOINT ["/rota"]
