FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /out/usr/bin/oncegate ./cmd/oncegate
# What the image holds beside the binary: a user, certificates, an empty
# directory for the store, and a place for temporary files.
RUN mkdir -p /out/etc/ssl/certs /out/etc/oncegate /own/data /own/tmp \
 && cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ \
 && cp config.docker.yaml /out/etc/oncegate/config.yaml \
 && echo 'nonroot:x:65532:65532:nonroot:/data:/sbin/nologin' > /out/etc/passwd \
 && echo 'nonroot:x:65532:' > /out/etc/group \
 && chmod 700 /own/data /own/tmp

FROM scratch
COPY --from=build /out /
COPY --from=build --chown=65532:65532 /own /
USER 65532:65532
WORKDIR /data
ENV ONCEGATE_CONFIG=/etc/oncegate/config.yaml
VOLUME /data
# 8080 clients, 8081 admin (on loopback inside the container unless set otherwise)
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 CMD ["/usr/bin/oncegate", "healthcheck"]
ENTRYPOINT ["/usr/bin/oncegate"]
CMD ["serve"]
