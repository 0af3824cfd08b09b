# The gateway as an image: `make image`. docs/deployment.md says how it is run, and what it needs.
#
# All stages stand on one base, so that the virtual environment of the first finds its Python in the last.
# Another base needs Python 3.11 or later at the same place in both, with its venv module.
ARG BASE=python:3.13-slim-trixie

# What the gateway stands on, which is seldom other than it was. The secrets are for a package index of one's own: pip's
# configuration, and the authority that its `cert` names.
FROM ${BASE} AS dependencies
WORKDIR /src
RUN python3 -m venv /tools && python3 -m venv --without-pip /opt/gateway
COPY pyproject.toml requirements-dev.lock ./
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    --mount=type=secret,id=pip_ca,target=/run/secrets/pip_ca \
    --mount=type=cache,target=/root/.cache/pip \
    python3 -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
print(*project["dependencies"], *project["optional-dependencies"]["prime"], sep="\n")' > requirements.txt \
    && /tools/bin/pip install --constraint requirements-dev.lock hatchling \
    && /tools/bin/pip --python /opt/gateway/bin/python install --compile --constraint requirements-dev.lock \
       --requirement requirements.txt

FROM dependencies AS build
COPY README.md LICENSE CHANGELOG.md ./
COPY docs/row.schema.json docs/row.schema.json
COPY gateway gateway
RUN /tools/bin/hatchling build --target wheel --directory /dist \
    && /tools/bin/pip --python /opt/gateway/bin/python install --compile --no-index --no-deps /dist/*.whl \
    && /tools/bin/pip --python /opt/gateway/bin/python check

FROM ${BASE}
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="rollout-gateway" \
      org.opencontainers.image.description="The gateway between LLM agents and the engines of an RL training run" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN useradd --no-log-init --uid 10001 --user-group --no-create-home --home-dir /cache --shell /usr/sbin/nologin gateway \
    && install --directory --owner=10001 --group=10001 --mode=0750 /cache
COPY --from=build /opt/gateway /opt/gateway
COPY deploy/image/probe.py /usr/local/bin/probe
# /cache is where a tokenizer is kept that comes from a hub; where the model is a folder, nothing is written anywhere.
# /srv is where a renderer of one's own is found, for --renderer module:factory.
# Beyond loopback the gateway asks for a key: GATEWAY_ADMIN_KEY or GATEWAY_AGENT_KEY, or GATEWAY_INSECURE=true.
ENV PATH=/opt/gateway/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HF_HOME=/cache \
    GATEWAY_HOST=0.0.0.0 \
    GATEWAY_PORT=8080
WORKDIR /srv
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["probe", "/health"]
# No shell stands between, so that SIGTERM reaches the gateway itself and it drains.
ENTRYPOINT ["/opt/gateway/bin/gateway"]
CMD ["serve"]
