// Package image makes container images without a container engine: the launch program, a worker's
// program, and the few files that programs expect of a system (users, certificates, /tmp), or all
// that on top of a base image.
//
// An image is a stack of layers, gzipped tar archives, and a configuration that says what runs.
// Layers here are in the order of how often they change: system files, launch, other files, the
// worker's program. A registry or a node that has a layer does not get it again.
//
//	img, err := image.Build(image.Config{Platform: p, Groups: groups, Entrypoint: []string{"/usr/local/bin/launch"}, Folder: dir})
//	err = img.WriteArchive("cifar10.tar", "cifar10:latest") // for podman load, docker load, ctr images import, kind load image-archive
//
// The same files make the same image, bit for bit: entries are sorted, belong to root, have no
// times, and are readable by all or executable by all, whatever they were here. (Another version of
// Go may compress differently; the digests of layers then differ, their contents do not.)
package image
