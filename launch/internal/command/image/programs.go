package image

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/launch/internal/gorun"
	"github.com/paragon-train/paragon/launch/internal/image"
)

// program finds the worker's program, or builds it.
func (o *imageOptions) program(ctx context.Context, dir string) (image.Program, error) {
	flags, pkg, _, goRun := gorun.Split(o.command)
	command := o.command
	if goRun {
		env := []string{"CGO_ENABLED=0"}
		if o.platform != nil {
			env = append(env, "GOOS="+o.platform.OS, "GOARCH="+o.platform.Architecture)
		}
		if o.base == "" {
			flags = withTag(flags, "nocuda")
		}
		var err error
		build := slices.Concat([]string{command[0], "run", "-trimpath"}, flags, pkg)
		if command, err = gorun.Build(ctx, build, dir, env...); err != nil {
			return image.Program{}, err
		}
	}
	p, err := image.ReadProgram(command[0])
	if err != nil {
		return image.Program{}, fmt.Errorf("launch: image: %w", err)
	}
	if o.platform != nil && p.Platform != *o.platform {
		return image.Program{}, fmt.Errorf("launch: image: %s is a program for %v, and --platform is %v", p.Path, p.Platform, *o.platform)
	}
	if err := p.Static(); err != nil && o.base == "" {
		return image.Program{}, fmt.Errorf("launch: image: %w, which an image without a base does not have; %s, or give --base an image that has them", err, howToBuildStatic(p.Path))
	}
	return p, nil
}

// howToBuildStatic says how to make a program static, by what is known of how it was built.
func howToBuildStatic(file string) string {
	const build = "build it with CGO_ENABLED=0 go build -tags nocuda"
	info, err := buildinfo.ReadFile(file)
	if err != nil { // it is not Go's
		return build
	}
	set := make(map[string]string)
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	opensCUDA := func(m *debug.Module) bool { return m.Path == "github.com/ebitengine/purego" }
	tags := strings.Split(set["-tags"], ",")
	if set["CGO_ENABLED"] == "1" || slices.Contains(tags, "nocuda") || !slices.ContainsFunc(info.Deps, opensCUDA) {
		return build
	}
	return fmt.Sprintf("although it was built with CGO_ENABLED=0, it opens CUDA through them (package nn); give \"-- go run %s\" in place of the program, which builds it without CUDA, or build it with CGO_ENABLED=0 go build -trimpath -tags nocuda", info.Path)
}

// withTag adds a build tag to flags of go build.
func withTag(flags []string, tag string) []string {
	flags = slices.Clone(flags)
	for i, f := range flags {
		name, value, inOne := strings.Cut(f, "=")
		if strings.TrimLeft(name, "-") != "tags" {
			continue
		}
		switch {
		case inOne:
			flags[i] = name + "=" + value + "," + tag
			return flags
		case i+1 < len(flags):
			flags[i+1] += "," + tag
			return flags
		}
	}
	return append(flags, "-tags="+tag)
}

// launcher finds the launch program.
func (o *imageOptions) launcher(p image.Platform) (image.Program, error) {
	file := o.launch
	if file == "" {
		var err error
		if file, err = os.Executable(); err != nil {
			return image.Program{}, fmt.Errorf("launch: image: find own program: %w", err)
		}
	}
	const build = "CGO_ENABLED=0 GOOS=%s GOARCH=%s go build -o %s github.com/paragon-train/paragon/launch"
	program, err := image.ReadProgram(file)
	switch {
	case err != nil && o.launch == "":
		return image.Program{}, fmt.Errorf("launch: image: this program: %w", err)
	case err != nil:
		return image.Program{}, fmt.Errorf("launch: image: --launch: %w", err)
	case program.Platform != p && o.launch == "":
		return image.Program{}, fmt.Errorf("launch: image: this launch program is for %v, and the worker's is for %v; make one with "+build+", and give it with --launch",
			program.Platform, p, p.OS, p.Architecture, "launch-"+p.Architecture)
	case program.Platform != p:
		return image.Program{}, fmt.Errorf("launch: image: --launch %s is for %v, and the worker's program is for %v", file, program.Platform, p)
	}

	// This holds also with a base, since launch copies itself to hosts of all kinds.
	if err := program.Static(); errors.Is(err, image.ErrDynamic) {
		return image.Program{}, fmt.Errorf("launch: image: the launch program %w; make a static one with "+build, err, p.OS, p.Architecture, "launch")
	}
	return program, nil
}
