package data

import (
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
)

// Run is `launch data`.
func Run(args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name:  "launch data",
		Usage: "check, show and pack data sets of images",
		Description: `SOURCE is what a trainer's --data is: a folder with a directory for each class, an .lst, .rec or .tar file,
several of them, or an https URL. What is in a bucket is copied to a disk first.

   launch data check photos/train                     what is there, and what is damaged?
   launch data show --output sheet.png photos/train   a picture of some images with their labels
   launch data pack --resize 256 photos/train train.rec

See docs/how-to/pack-and-check.md.`,
		Commands: []*cli.Command{packCommand(), checkCommand(), showCommand()},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return command.UnknownCommand(c.App, c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	if len(args) > 0 {
		if i := slices.IndexFunc(app.Commands, func(c *cli.Command) bool { return c.Name == args[0] }); i >= 0 {
			args = append(args[:1:1], flagsFirst(app.Commands[i].Flags, args[1:])...)
		}
	}
	return command.RunApp(app, args, stdout, stderr)
}

// flagsFirst puts flags that stand behind an argument before it, as package cli wants them.
func flagsFirst(flags []cli.Flag, args []string) []string {
	value := map[string]bool{}
	for _, f := range flags {
		if _, ok := f.(*cli.BoolFlag); !ok {
			for _, name := range f.Names() {
				value[name] = true
			}
		}
	}

	// A flag that is not known takes no value here; package cli refuses it anyway.
	var first, rest []string
	for i := 0; i < len(args); i++ {
		name := strings.TrimLeft(args[i], "-")
		switch {
		case args[i] == "--":
			return slices.Concat(first, args[i:i+1], rest, args[i+1:])
		case name == args[i] || name == "":
			rest = append(rest, args[i])
		case value[name] && i+1 < len(args):
			first = append(first, args[i], args[i+1])
			i++
		default:
			first = append(first, args[i])
		}
	}
	return append(first, rest...)
}
