# The images of `make image`, for those who build with Docker: the same user,
# entry point, environment, files and labels. A test in scripts/image holds
# the two equal.
#
#   docker build --build-arg VERSION=$(git describe --tags --match 'v[0-9]*' --always) --build-arg COMMIT=$(git rev-parse --short=12 HEAD) .
#   docker build --target demo ...
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY . .
ARG TARGETOS TARGETARCH VERSION=unknown COMMIT=unknown FIPS=
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION=$VERSION COMMIT=$COMMIT FIPS=$FIPS
RUN cd scripts/image && go run . -roots /src/bin/ca-certificates.crt

FROM scratch AS demo
ARG VERSION=unknown COMMIT=unknown
LABEL org.opencontainers.image.title="queuegate-demo" \
      org.opencontainers.image.description="User container that echoes, waits, streams and fails on request, to put behind queuegate" \
      org.opencontainers.image.source="https://github.com/queuegate/queuegate" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
ENV PATH=/usr/local/bin:/usr/bin:/bin
WORKDIR /
COPY --from=build --chmod=755 /src/bin/demo /usr/local/bin/demo
EXPOSE 8080/tcp
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/demo"]

FROM scratch AS queue
ARG VERSION=unknown COMMIT=unknown
LABEL org.opencontainers.image.title="queuegate" \
      org.opencontainers.image.description="Request gate that stands in front of a serverless container in its own pod" \
      org.opencontainers.image.source="https://github.com/queuegate/queuegate" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
ENV PATH=/usr/local/bin:/usr/bin:/bin
WORKDIR /
COPY --from=build --chmod=644 /src/bin/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chmod=755 /src/bin/queue /usr/local/bin/queue
EXPOSE 8012/tcp 8022/tcp 8112/tcp 9090/tcp 9091/tcp
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/queue"]
