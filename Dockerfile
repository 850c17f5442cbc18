# The image of a server: one static binary, user 65532, no shell. The root file system can be
# read-only. docs/how-to/install.md has the commands.
#
# The stage "executor" is the sample executor of packaging/compose.
FROM --platform=$BUILDPLATFORM golang:1.26-alpine AS build
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=0.1.0-snapshot
ARG COMMIT=
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X main.release=$VERSION -X main.commit=$COMMIT" -o /out/tickring ./cmd/tickring \
 && mkdir -p /out/state/tickring /out/state/tickring-key && chmod 700 /out/state/*

FROM alpine:3.22 AS executor
COPY --from=build /out/tickring /usr/bin/tickring
USER 65532:65532
EXPOSE 9999
ENTRYPOINT ["/usr/bin/tickring", "exec"]

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/tickring /usr/bin/tickring
COPY --from=build --chown=65532:65532 /out/state /var/lib
ENV PATH=/usr/bin TICKRING_DATA=/var/lib/tickring TICKRING_SECRET_KEY_FILE=/var/lib/tickring-key/key
USER 65532:65532
VOLUME ["/var/lib/tickring", "/var/lib/tickring-key"]
EXPOSE 7700
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s CMD ["/usr/bin/tickring", "health"]
ENTRYPOINT ["/usr/bin/tickring"]
CMD ["serve", "--listen", "0.0.0.0:7700"]
