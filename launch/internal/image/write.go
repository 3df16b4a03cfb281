package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	containername "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A Tag names an image, such as cifar10:latest or registry.example.com/team/cifar10:v2.
type Tag struct{ tag containername.Tag }

// ParseTag reads a tag; without a version it is "latest".
func ParseTag(s string) (Tag, error) {
	if strings.Contains(s, "@") {
		return Tag{}, fmt.Errorf("tag %q has a digest, which follows from what is in an image; write NAME or NAME:VERSION", s)
	}
	tag, err := containername.NewTag(s)
	if err != nil {
		return Tag{}, fmt.Errorf("tag %q: %w; write NAME or NAME:VERSION in lower case", s, err)
	}
	return Tag{tag}, nil
}

// String is the tag with its version.
func (t Tag) String() string {
	return strings.TrimSuffix(t.tag.String(), ":"+t.tag.TagStr()) + ":" + t.tag.TagStr()
}

// WriteArchive writes the image as docker save does. The file appears when it is whole.
func (i *Image) WriteArchive(path string, tag Tag) error {
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("image: write %s: %w", path, err)
	}

	// A draft that has got its name is not there any more.
	defer os.Remove(draft.Name())
	// A file of CreateTemp is for its owner alone; an image is no secret.
	err = errors.Join(tarball.Write(tag.tag, i.img, draft), draft.Chmod(0o644), draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("image: write %s: %w", path, err)
	}
	return nil
}

// refName is the annotation that names an image of a layout.
const refName = "org.opencontainers.image.ref.name"

// WriteLayout adds the image to a layout of OCI, a folder, which is made if it is not there. Images
// of one tag for several platforms become one image of several platforms, whose digest it returns.
func (i *Image) WriteLayout(dir string, tag Tag) (string, error) {
	l, err := openLayout(dir)
	if err != nil {
		return "", fmt.Errorf("image: layout %s: %w", dir, err)
	}
	version := tag.tag.TagStr()
	adds, err := others(l, version, i.Platform)
	if err != nil {
		return "", fmt.Errorf("image: layout %s: %w", dir, err)
	}
	adds = append(adds, mutate.IndexAddendum{Add: i.img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: i.Platform.OS, Architecture: i.Platform.Architecture}}})
	slices.SortFunc(adds, func(a, b mutate.IndexAddendum) int {
		return strings.Compare(a.Descriptor.Platform.String(), b.Descriptor.Platform.String())
	})
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), adds...)
	if err := l.ReplaceIndex(index, match.Name(version), layout.WithAnnotations(map[string]string{refName: version})); err != nil {
		return "", fmt.Errorf("image: layout %s: %w", dir, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("image: layout %s: %w", dir, err)
	}
	return digest.String(), nil
}

// openLayout opens a layout, or makes one of a folder that is empty or not there.
func openLayout(dir string) (layout.Path, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0:
		return layout.Write(dir, empty.Index)
	case err != nil:
		return "", err
	}
	l, err := layout.FromPath(dir)
	if err != nil {
		return "", fmt.Errorf("the folder has files and is not an OCI image layout: %w", err)
	}
	return l, nil
}

// others are the images of a version that a layout has for other platforms.
func others(l layout.Path, version string, p Platform) ([]mutate.IndexAddendum, error) {
	root, err := l.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, err
	}
	var found []mutate.IndexAddendum
	for _, d := range manifest.Manifests {
		if d.Annotations[refName] != version || !d.MediaType.IsIndex() {
			continue
		}
		index, err := root.ImageIndex(d.Digest)
		if err != nil {
			return nil, err
		}
		platforms, err := index.IndexManifest()
		if err != nil {
			return nil, err
		}
		for _, d := range platforms.Manifests {
			if d.Platform == nil || !d.MediaType.IsImage() || (Platform{d.Platform.OS, d.Platform.Architecture}) == p {
				continue
			}
			img, err := index.Image(d.Digest)
			if err != nil {
				return nil, err
			}
			found = append(found, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: d.Platform}})
		}
	}
	return found, nil
}
