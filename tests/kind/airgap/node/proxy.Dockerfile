# kube-proxy's image: the program and the iptables that it writes its rules with.
ARG BASE
FROM ${BASE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends conntrack iptables kmod \
    && rm -rf /var/lib/apt/lists/*
COPY kube-proxy /usr/local/bin/
