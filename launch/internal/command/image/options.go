package image

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/gorun"
	"github.com/paragon-train/paragon/launch/internal/image"
)

// imageOptions are the command line of launch image.
type imageOptions struct {
	// tag names the image.
	tag image.Tag

	// output and layout are where it is written, as an archive and as an OCI layout; at least one
	// is given.
	output, layout string

	// platform is nil for that of the programs.
	platform *image.Platform

	// launch is the launch program for the image; empty: this one. base is an archive with the
	// image that it begins with; empty: none.
	launch, base string

	// files are more files, as --file gives them.
	files []image.File

	// symbols keeps the debug symbols of programs.
	symbols bool

	// command is the worker's program, or a go run of it.
	command []string
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
