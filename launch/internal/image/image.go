package image

import (
	"fmt"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A Config says what an image holds.
type Config struct {
	Platform Platform

	// Base is the archive of an image that this one begins with (docker save); empty: there is
	// none.
	Base string

	// Groups become a layer each. A group without files does not.
	Groups []Group

	Entrypoint []string
	WorkingDir string

	// Env are NAME=VALUE. They win over those of a base.
	Env []string

	// Folder gets the layers, and has to be there until the image is written.
	Folder string
}

// An Image is an image for one platform.
type Image struct {
	img      v1.Image
	Platform Platform

	// ID is that of the configuration, sha256:..., which podman images and docker images show.
	ID string

	// Digest is that of the manifest, sha256:..., by which registries and layouts call the image.
	Digest string

	Layers []Layer
}

// A Layer is what is known of a layer, the base's too.
type Layer struct {
	Name string

	// Packed and Unpacked are in bytes. Unpacked is 0 for layers of the base.
	Packed, Unpacked int64
}

// Packed is the number of bytes that a node or a registry gets at most.
func (i *Image) Packed() (n int64) {
	for _, l := range i.Layers {
		n += l.Packed
	}
	return n
}

// Unpacked is the number of bytes of the files, without those of the base.
func (i *Image) Unpacked() (n int64) {
	for _, l := range i.Layers {
		n += l.Unpacked
	}
	return n
}

// created is when each image is said to have been made: the same files make the same image.
var created = v1.Time{Time: time.Unix(0, 0).In(time.UTC)}

// Build makes an image. It stays in cfg.Folder until it is written.
func Build(cfg Config) (*Image, error) {
	made := &Image{Platform: cfg.Platform}
	base, layerType, err := made.addBase(cfg)
	if err != nil {
		return nil, err
	}
	adds, err := made.addGroups(cfg, layerType)
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(base, adds...)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	if img, err = configured(img, cfg); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	id, err := img.ConfigName()
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	made.img, made.Digest, made.ID = img, digest.String(), id.String()
	return made, nil
}

// addBase reads the image that this one begins with, and the type of the layers that fit to it: of
// OCI, or of Docker where the base has those, as all archives have.
func (i *Image) addBase(cfg Config) (v1.Image, types.MediaType, error) {
	if cfg.Base == "" {
		return mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), types.OCILayer, nil
	}
	base, err := readBase(cfg.Base, cfg.Platform)
	if err != nil {
		return nil, "", err
	}
	layers, err := base.Layers()
	if err != nil {
		return nil, "", fmt.Errorf("image: base %s: %w", cfg.Base, err)
	}
	for _, l := range layers {
		size, err := l.Size()
		if err != nil {
			return nil, "", fmt.Errorf("image: base %s: %w", cfg.Base, err)
		}
		i.Layers = append(i.Layers, Layer{Name: "base", Packed: size})
	}
	return base, types.DockerLayer, nil
}

// addGroups writes a layer for each group that has files.
func (i *Image) addGroups(cfg Config, layerType types.MediaType) (adds []mutate.Addendum, err error) {
	groupOf := make(map[string]string)
	for _, g := range cfg.Groups {
		if len(g.Files) == 0 {
			continue
		}
		for _, f := range g.Files {
			if other, ok := groupOf[f.Path]; ok {
				return nil, fmt.Errorf("image: %s is in the image twice: %s, %s", f.Path, other, g.Name)
			}
			groupOf[f.Path] = g.Name
		}
		files, err := withFolders(g.Files)
		if err != nil {
			return nil, fmt.Errorf("image: %w", err)
		}
		l, err := writeLayer(cfg.Folder, files, layerType)
		if err != nil {
			return nil, err
		}
		adds = append(adds, mutate.Addendum{Layer: l, MediaType: layerType, History: v1.History{Created: created, CreatedBy: "launch image: " + g.Name}})
		i.Layers = append(i.Layers, Layer{Name: g.Name, Packed: l.size, Unpacked: l.unpacked})
	}
	return adds, nil
}

// configured is an image that runs as cfg says.
func configured(img v1.Image, cfg Config) (v1.Image, error) {
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = cfg.Platform.OS, cfg.Platform.Architecture
	config.Created = created
	config.Config.User = User
	config.Config.Entrypoint, config.Config.Cmd = cfg.Entrypoint, nil
	config.Config.WorkingDir = cfg.WorkingDir
	config.Config.Env = setVariables(config.Config.Env, cfg.Env)
	return mutate.ConfigFile(img, config)
}

// readBase reads the image that another one begins with.
func readBase(path string, p Platform) (v1.Image, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("image: base: %w", err)
	}
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		return nil, fmt.Errorf("image: base %s: %w; want an archive of one image, as docker save, podman save and crane pull write it", path, err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image: base %s: %w", path, err)
	}
	if got := (Platform{config.OS, config.Architecture}); got != p {
		return nil, fmt.Errorf("image: base %s is for %v, and the image is for %v", path, got, p)
	}
	return img, nil
}

// setVariables sets variables, each NAME=VALUE, in an environment.
func setVariables(env, set []string) []string {
	env = append([]string(nil), env...)
	for _, v := range set {
		at := len(env)
		for i, e := range env {
			if name(e) == name(v) {
				at = i
			}
		}
		env = append(env[:at], append([]string{v}, env[min(at+1, len(env)):]...)...)
	}
	return env
}

func name(variable string) string {
	for i := range variable {
		if variable[i] == '=' {
			return variable[:i]
		}
	}
	return variable
}
