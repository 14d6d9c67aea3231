# syntax=docker/dockerfile:1

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w" -o /millrace ./cmd/app

# Nothing but the binary, the certificate authorities for TLS, and a static wget for the health check.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=busybox:musl /bin/wget /bin/wget
COPY --from=build /millrace /millrace
USER 65532:65532
ENTRYPOINT ["/millrace"]
CMD ["run"]
# Ready: it relays, and PostgreSQL and Kafka answer. Served on the loopback address only.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
    CMD ["/bin/wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8481/readyz"]
