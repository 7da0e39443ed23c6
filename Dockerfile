# The indexer in a slim image: non-root, and content with a read-only root file system (/tmp and the data folder
# are all it writes to). Build: `docker build -t concrnt-indexer .`
FROM python:3.11-slim AS build

# safe-pysha3 may have to be compiled; nothing of this stage but /app goes into the image.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY requirements.lock pyproject.toml README.md ./
# The lock has the tools of development too. With them, and bound to it, what the program itself needs is worked out.
RUN python -m venv tools \
    && tools/bin/pip install --no-cache-dir --require-hashes --requirement requirements.lock \
    && tools/bin/uv pip compile --quiet --generate-hashes --constraint requirements.lock --output-file runtime.txt pyproject.toml \
    && python -m venv /app \
    && tools/bin/uv pip install --no-cache --python /app/bin/python --require-hashes --requirement runtime.txt
COPY indexer indexer
RUN tools/bin/uv build --wheel --no-build-isolation --python tools/bin/python --out-dir dist \
    && tools/bin/uv pip install --no-cache --no-deps --python /app/bin/python dist/*.whl

FROM python:3.11-slim

RUN useradd --uid 10001 --no-create-home --home-dir /var/lib/concrnt-indexer concrnt \
    && install --directory --owner=10001 --group=10001 /var/lib/concrnt-indexer
COPY --from=build /app /app
ENV PATH=/app/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    INDEXER_BACKENDS__DATA_DIR=/var/lib/concrnt-indexer
USER 10001
WORKDIR /var/lib/concrnt-indexer
VOLUME /var/lib/concrnt-indexer
EXPOSE 8080 8081
# Alive, not ready: an outage of the database must not have the container replaced.
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=4 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8081/health', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["concrnt-indexer"]
CMD ["up"]
