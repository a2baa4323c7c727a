# The command alone, for serve, console, exporter and operators; and for `COPY --from=` into images of workers:
#   docker build -t mandate .
#   docker buildx build --platform linux/amd64,linux/arm64 .
FROM --platform=$BUILDPLATFORM golang:1.26-alpine AS build
ARG TARGETOS TARGETARCH VERSION=dev
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /image/usr/bin/mandate ./cmd/mandate
RUN mkdir -p /image/etc/ssl/certs && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ && \
    echo 'mandate:x:65532:65532::/:' >/image/etc/passwd

FROM scratch
COPY --from=build /image/etc /etc
COPY --from=build /image/usr /usr
USER 65532:65532
ENV PATH=/usr/bin
ENTRYPOINT ["/usr/bin/mandate"]
