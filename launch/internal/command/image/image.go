package image

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/files/scratch"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/gorun"
	"github.com/paragon-train/paragon/launch/internal/image"
)

// imageDescription is what launch image --help says.
const imageDescription = `Makes a container image of this launch program and a worker's program. It needs no Docker, no daemon and no root.

  an image for a job on Kubernetes (launch k8s render --image cifar10)
    launch image --tag cifar10 --output cifar10.tar -- go run ./examples/cifar10

  then one of
    podman load -i cifar10.tar
    docker load -i cifar10.tar
    ctr -n k8s.io images import cifar10.tar
    kind load image-archive cifar10.tar

  two platforms, for a registry: skopeo copy --all oci:images:v1 docker://registry.example.com/cifar10:v1
    launch image --tag cifar10:v1 --layout images -- go run ./examples/cifar10
    launch image --tag cifar10:v1 --layout images --platform linux/arm64 --launch launch-arm64 -- go run ./examples/cifar10

Programs are in /usr/local/bin, and launch is what the image runs: arguments of podman run and "args" of a pod are those of launch. Processes run
as user 65532. The root file system may be read-only; /tmp, which is also the home and the working folder, should be writable.

Without --base the image has nothing but these programs, CA certificates from this machine, and a list of users: no shell, no C library.
The programs have to be static. A "go run" is built with CGO_ENABLED=0 and the tag nocuda (without it, package nn opens CUDA through the C library).
For GPUs give a base with the C library, cuDNN and so on, which lets programs be dynamic: --base FILE.tar, as docker save or podman save write it.

Symbols for debuggers are left out of the programs (--symbols keeps them); tracebacks and profiles do not need them. The same files make the same image,
bit for bit.`

// imageLimit is the size of an image, in bytes to send, above which launch image warns.
const imageLimit = 40e6

// Run is `launch image`.
func Run(args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name:        "launch image",
		Usage:       "make a container image of launch and a worker's program",
		UsageText:   "launch image --tag NAME --output FILE.tar [flags] -- PROGRAM\nlaunch image --tag NAME --output FILE.tar [flags] -- go run PACKAGE",
		Description: imageDescription,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tag", Usage: "`NAME` of the image, with :VERSION or without", DefaultText: "must be given"},
			&cli.PathFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the image to `FILE`, as docker save does", TakesFile: true},
			&cli.PathFlag{Name: "layout", Usage: "add the image to `FOLDER`, an OCI image layout, which can hold images for several platforms", TakesFile: true},
			&cli.StringFlag{Name: "platform", Usage: "what the image runs on: linux/amd64 or linux/arm64", DefaultText: "that of the program"},
			&cli.PathFlag{Name: "launch", Usage: "put launch program `FILE` into the image", DefaultText: "this program", TakesFile: true},
			&cli.PathFlag{Name: "base", Usage: "begin with the image in archive `FILE`; programs may then be dynamic", DefaultText: "none", TakesFile: true},
			&cli.StringSliceFlag{Name: "file", Usage: "add `SOURCE:DESTINATION`, a file or folder here and its path in the image; repeatable"},
			&cli.BoolFlag{Name: "symbols", Usage: "keep the debug symbols of the programs", DisableDefaultText: true},
		},
		DisableSliceFlagSeparator: true,
		Action: func(c *cli.Context) error {
			o, err := readImageOptions(c)
			if err != nil {
				return err
			}
			return o.make(c.Context, stdout, stderr)
		},
	}
	return command.RunApp(app, args, stdout, stderr)
}

// imageOptions are the command line of launch image.
type imageOptions struct {
	tag            image.Tag
	output, layout string

	// platform is nil for that of the programs.
	platform *image.Platform

	launch, base string
	files        []image.File
	symbols      bool
	command      []string
}

// readImageOptions reads the command line. Arguments of the program are refused: an image that
// carried them would hide them from the manifest that runs it.
func readImageOptions(c *cli.Context) (*imageOptions, error) {
	o := &imageOptions{output: c.Path("output"), layout: c.Path("layout"), launch: c.Path("launch"), base: c.Path("base"), symbols: c.Bool("symbols"), command: c.Args().Slice()}
	_, _, rest, goRun := gorun.Split(o.command)
	switch {
	case c.String("tag") == "":
		return nil, command.Usagef("image: --tag is missing; give the image a name, such as --tag cifar10")
	case o.output == "" && o.layout == "":
		return nil, command.Usagef("image: --output FILE.tar (or --layout FOLDER) is missing; it says where the image is written")
	case len(o.command) == 0:
		return nil, command.Usagef("image: the worker's program is missing: launch image [flags] -- PROGRAM, or -- go run PACKAGE")
	case !goRun && len(o.command) > 1:
		rest = o.command[1:]
	}
	if len(rest) > 0 {
		return nil, command.Usagef("image: got arguments %q of the program; an image holds the program alone, give them where the image runs", strings.Join(rest, " "))
	}
	var err error
	if o.tag, err = image.ParseTag(c.String("tag")); err != nil {
		return nil, command.Usagef("image: --tag: %w", err)
	}
	if c.IsSet("platform") {
		p, err := image.ParsePlatform(c.String("platform"))
		if err != nil {
			return nil, command.Usagef("image: --%w", err)
		}
		o.platform = &p
	}
	for _, spec := range c.StringSlice("file") {
		files, err := image.Add(spec)
		if err != nil {
			return nil, command.Usagef("image: --file: %w", err)
		}
		o.files = append(o.files, files...)
	}
	return o, nil
}

// Where programs are in an image, and the folder that processes may write to.
const (
	imagePrograms = "/usr/local/bin"
	imageFolder   = "/tmp"
)

// make makes the image.
func (o *imageOptions) make(ctx context.Context, stdout, stderr io.Writer) error {
	folder, err := scratch.New("image")
	if err != nil {
		return fmt.Errorf("launch: image: %w", err)
	}
	defer folder.Remove()
	program, err := o.program(ctx, folder.Path)
	if err != nil {
		return err
	}
	launcher, err := o.launcher(program.Platform)
	if err != nil {
		return err
	}

	// Both are in one folder of the image.
	name := filepath.Base(program.Path)
	if name == "launch" {
		return fmt.Errorf("launch: image: the worker's program is called launch, as ours is; give it another name")
	}
	cfg := image.Config{
		Platform: program.Platform, Base: o.base, Folder: folder.Path, WorkingDir: imageFolder,
		Entrypoint: []string{path.Join(imagePrograms, "launch")},
		Env:        []string{"HOME=" + imageFolder},
	}

	// Each group is a layer. The worker's program is the last one, so that a new build of it
	// sends nothing but itself.
	launchGroup := image.Group{Name: "launch", Files: []image.File{o.programFile("launch", launcher)}}
	programGroup := image.Group{Name: name, Files: []image.File{o.programFile(name, program)}}
	if o.base == "" {
		certificates, _, err := image.Certificates()
		if err != nil {
			return fmt.Errorf("launch: image: certificates: %w", err)
		}

		// The image is of use without them where nothing is fetched over https.
		if certificates == nil {
			fmt.Fprintln(stderr, "launch: image: this machine has no CA certificates (package ca-certificates), so the image has none and https does not work in it")
		}

		// A base has a PATH of its own.
		cfg.Env = append(cfg.Env, "PATH="+imagePrograms)
		cfg.Groups = []image.Group{{Name: "system", Files: image.System(certificates)}}
	}
	cfg.Groups = append(cfg.Groups, launchGroup, image.Group{Name: "files", Files: o.files}, programGroup)
	img, err := image.Build(cfg)
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	return o.write(img, stdout, stderr)
}

// programFile is a program under its name in the image, without its symbols unless they are wanted.
func (o *imageOptions) programFile(name string, p image.Program) image.File {
	f := image.File{Path: path.Join(imagePrograms, name), Mode: 0o755, Program: &p}
	if o.symbols {
		f.Program, f.Source = nil, p.Path
	}
	return f
}

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

// write writes the image, and says what it is and how it is loaded.
func (o *imageOptions) write(img *image.Image, stdout, stderr io.Writer) error {
	if o.output != "" {
		if err := img.WriteArchive(o.output, o.tag); err != nil {
			return fmt.Errorf("launch: %w", err)
		}
	}
	digest := img.Digest
	if o.layout != "" {
		var err error
		if digest, err = img.WriteLayout(o.layout, o.tag); err != nil {
			return fmt.Errorf("launch: %w", err)
		}
	}
	fmt.Fprintf(stdout, "%s for %v, ID %s\n", o.tag, img.Platform, img.ID)
	for _, l := range img.Layers {
		fmt.Fprintf(stdout, "  %-20s %7.1f MB", l.Name, float64(l.Packed)/1e6)
		if l.Unpacked > 0 {
			fmt.Fprintf(stdout, ", %.1f MB unpacked", float64(l.Unpacked)/1e6)
		}
		fmt.Fprintln(stdout)
	}
	fmt.Fprintf(stdout, "  %-20s %7.1f MB\n", "in all", float64(img.Packed())/1e6)
	if o.output != "" {
		fmt.Fprintf(stdout, "Load %s with one of\n  podman load -i %[1]s\n  docker load -i %[1]s\n  ctr -n k8s.io images import %[1]s\n  kind load image-archive %[1]s\n", o.output)
	}
	if o.layout != "" {
		fmt.Fprintf(stdout, "%s in layout %s is %s\n", o.tag, o.layout, digest)
	}
	if img.Packed() > imageLimit {
		var layers []string
		for _, l := range img.Layers {
			layers = append(layers, fmt.Sprintf("%s %.1f MB", l.Name, float64(l.Packed)/1e6))
		}
		fmt.Fprintf(stderr, "launch: image: the image has %.1f MB, more than %.0f MB: %s; each new node pulls it before it can start; the build tags s3only and nobuckets leave the clouds' libraries out of a program (go run -tags s3only PACKAGE)\n", float64(img.Packed())/1e6, imageLimit/1e6, strings.Join(layers, ", "))
	}
	return nil
}
