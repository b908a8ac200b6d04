# `arr-coc serve` with the bundled mini, without torch: docker build -t arr-coc . && docker run --rm -p 8000:8000 -e ARR_COC_API_KEY=… arr-coc
ARG BASE=python:3.12-slim
FROM ${BASE} AS build
COPY . /source
RUN python3 -m venv /opt/arr-coc && /opt/arr-coc/bin/pip install --no-cache-dir "/source[serve]"

FROM ${BASE}
COPY --from=build /opt/arr-coc /opt/arr-coc
RUN useradd --create-home arr-coc
USER arr-coc
WORKDIR /home/arr-coc
EXPOSE 8000
HEALTHCHECK CMD ["/opt/arr-coc/bin/python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health')"]
# Another address than this machine's needs a key, in ARR_COC_API_KEY.
ENTRYPOINT ["/opt/arr-coc/bin/arr-coc", "serve", "--bind", "0.0.0.0:8000"]
