package image

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/files/scratch"
	"github.com/paragon-train/paragon/launch/internal/command"
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
