# A container with Partita built in it: `make demo` is run while the image is made.
#   docker build -t partita .
#   docker run --rm partita build/release/partita compare zoo:lenet --devices 4
#   docker run --rm -e CI=1 partita make test      installs what tests need too, builds them, and runs them
FROM debian:12
RUN apt-get update && apt-get install -y --no-install-recommends make
COPY . /partita
WORKDIR /partita
RUN CI=1 make demo
