#!/usr/bin/env bash
# kind's node image, as a Docker image named $IMAGE: the file system of kind's own base image, the
# programs of Kubernetes, and inside it the images that the control plane starts from.
set -euo pipefail

export DOCKER_BUILDKIT=0
base="$IMAGE-base"

# An image of programs alone: image_of NAME SOURCE_FOLDER FOLDER_IN_IMAGE CHANGE PROGRAM…
image_of() {
  local name="$1" source="$2" folder="$3" change="$4"
  shift 4
  tar -C "$source" --transform "s,^,$folder," -c "$@" |
    docker import --change "LABEL $LABEL" --change "$change" - "$name"
  images+=("$name")
}

# An image of one program on Debian: debian_image_of NAME DOCKERFILE PROGRAM
debian_image_of() {
  rm -rf context && mkdir context
  cp "$AIRGAP/node/$2" context/Dockerfile
  cp "$3" context/
  docker build --network host --label "$LABEL" --build-arg "BASE=$DEBIAN_IMAGE" --tag "$1" context
  images+=("$1")
}

# kubeadm knows the tags that it will ask for, containerd's configuration the one of its own.
build_images() {
  local name
  for name in $("$KUBERNETES/kubeadm" config images list --kubernetes-version "$KUBERNETES_VERSION") \
    "$(sed -n 's/.*sandbox_image = "\(.*\)"/\1/p' "$kind_files/etc/containerd/config.toml")"; do
    case "$name" in
      */kube-proxy:*) debian_image_of "$name" proxy.Dockerfile "$KUBERNETES/kube-proxy" ;;
      */kube-*:*)
        local program="${name##*/}"
        image_of "$name" "$KUBERNETES" usr/local/bin/ 'ENV PATH=/usr/local/bin' "${program%:*}"
        ;;
      */etcd:*) image_of "$name" "$ETCD" usr/local/bin/ 'ENV PATH=/usr/local/bin' etcd etcdctl ;;
      */coredns:*) image_of "$name" "$COREDNS" '' 'ENTRYPOINT ["/coredns"]' coredns ;;
      */pause:*) image_of "$name" "$PAUSE" '' 'ENTRYPOINT ["/pause"]' pause ;;
      *)
        echo "kubeadm asks for an image that nothing here builds: $name" >&2
        return 1
        ;;
    esac
  done
  debian_image_of imagenetjob.test/local-path-provisioner:airgap provisioner.Dockerfile \
    "$LOCAL_PATH_PROVISIONER/local-path-provisioner"
}

build_base() {
  mkdir -p node/programs
  cp -r "$kind_files" node/files
  # The module cache keeps neither write nor execute permissions.
  chmod -R u+w node/files
  chmod 755 node/files/kind/bin node/files/kind/bin/* node/files/usr/local/bin/*
  cp "$KUBERNETES"/{kubelet,kubeadm,kubectl} node/programs/
  cp "$AIRGAP"/node/{Dockerfile,default-storage.yaml} node/
  printf '%s' "$KUBERNETES_VERSION" >node/version
  docker build --network host --label "$LABEL" --build-arg "BASE=$DEBIAN_IMAGE" --tag "$base" node
}

# What the node's own containerd holds can only be put there by it: it runs for the import alone.
import_images() {
  container="$(docker run --detach --network none --security-opt seccomp=unconfined \
    --entrypoint containerd "$base")"
  trap 'docker rm --force --volumes "$container" >/dev/null' EXIT
  timeout 60 sh -c "until docker exec $container ctr version >/dev/null 2>&1; do sleep 0.2; done" || {
    docker logs "$container" 2>&1 | tail -n 20
    echo "containerd does not answer in the node image; the last it said is above" >&2
    return 1
  }
  docker save "${images[@]}" | docker exec --interactive "$container" \
    ctr --namespace k8s.io images import --all-platforms --no-unpack --digests -
  docker kill --signal TERM "$container" >/dev/null
  docker wait "$container" >/dev/null
  node="$(docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' \
    --change 'CMD []' "$container")"
}

images=()
kind_files="$(go mod download -json "sigs.k8s.io/kind@$KIND_VERSION" |
  awk -F '"' '$2 == "Dir" {print $4}')/images/base/files"
build_images
build_base
import_images
docker rmi --no-prune --force "$base" "${images[@]}" >/dev/null
docker tag "$node" "$IMAGE"
