# refprior as a command. For the CPU:
#     docker build -t refprior .
#     docker run --rm -u "$(id -u):$(id -g)" -v "$PWD:/work" refprior train digits_ssl --out runs/digits
# With a GPU, a base with CUDA and `docker run --gpus all`:
#     docker build --build-arg BASE=nvidia/cuda:12.8.1-runtime-ubuntu24.04 -t refprior:cuda .
# torch comes from pip's own index. Another one, such as torch's of CPU wheels, which spares several GB:
#     docker build --build-arg TORCH_INDEX=https://… .
ARG BASE=python:3.12-slim-bookworm

FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY LICENSE README.md constraints.txt pyproject.toml ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

# hadolint ignore=DL3006
FROM ${BASE}
ARG TORCH_INDEX=""
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Bases with CUDA have no Python; versions of Debian's packages are those of the base.
# hadolint ignore=DL3008
RUN if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then \
      apt-get update \
      && apt-get install -y --no-install-recommends python3 python3-venv \
      && rm -rf /var/lib/apt/lists/*; \
    fi
COPY --from=build /wheels /wheels
COPY --from=build /source/constraints.txt /wheels/
# PIP_EXTRA_INDEX_URL, empty or not, is read by pip itself.
RUN python3 -m venv /opt/refprior \
    && PIP_EXTRA_INDEX_URL="${TORCH_INDEX}" /opt/refprior/bin/pip install --no-cache-dir \
      -c /wheels/constraints.txt "$(echo /wheels/*.whl)[all]" \
    && install -d -m 1777 /work
# Data sets and caches are kept in the home folder: the mounted one, which whoever runs this can write to.
ENV HOME=/work PATH=/opt/refprior/bin:$PATH OMP_WAIT_POLICY=PASSIVE
USER 10001
WORKDIR /work
ENTRYPOINT ["refprior"]
CMD ["--help"]
