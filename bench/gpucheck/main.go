// Command gpucheck verifies, on a machine with an NVIDIA GPU, all that this project does with one,
// and measures it:
//
//	make gpucheck-build                               # bin/launch, bin/cifar10, bin/gpucheck, bin/gpucheck-tests
//	bin/gpucheck -json report.json                    # everything, nine minutes at most
//	bin/gpucheck -data data/cifar10                   # with a short real training besides
//	bin/gpucheck -sections ops,gradients -time 2m
//	bin/gpucheck -list                                # what there is to check
//
// It prints one row for each check, and continues after a failure: each section runs in a child
// process with a time limit, because an error on the GPU makes it unusable for the process. A row
// is
//
//	ok     as it should be
//	FAIL   wrong: a result, a library, a crash, a time limit
//	MISS   correct, but below the target for speed or precision
//	info   a measurement, or an answer to a question that the libraries' documentation leaves open
//	skip   not checked, with the reason
//
// The most important sections come first. They share the time: a quick section leaves the rest of
// its share to later ones. A section that exceeds its share is ended, with its child processes. The
// report has the stacks of one that hangs.
//
// The exit code is 0 if no row is FAIL or MISS, 1 if one is, 2 for wrong flags, and 3 where there
// is no GPU that can be used: then it says what is missing. The JSON report has all rows, and what
// the child processes wrote if they failed; it is written anew after each section.
//
// What it checks are Go tests with the build tag gpu, which it runs as programs, so the machine
// needs no Go: the folder gpucheck-tests lies beside it. It runs launch and cifar10 from the same
// folder (-bin), and PyTorch by python3 (-python) from a script that it brings along.
// docs/design/0023-gpucheck.md says why it is as it is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/version"
)

const (
	exitBad   = 1
	exitUsage = 2
	exitNoGPU = 3
)

// settings are the flags.
type settings struct {
	sections string
	time     time.Duration
	json     string
	data     string
	bin      string
	python   string
	device   int
	epochs   int
	small    bool
	list     bool

	// self is the program that sections run in; "": this one.
	self string

	// section is the one that this process runs as a child.
	section string

	// exchange makes this process a worker without a GPU.
	exchange bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func command(ctx context.Context, args []string, out, errs io.Writer) int {
	return settings{}.command(ctx, args, out, errs)
}

// command is gpucheck with flags, over what is no flag.
func (s settings) command(ctx context.Context, args []string, out, errs io.Writer) int {
	f := flag.NewFlagSet("gpucheck", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&s.sections, "sections", "", "sections to run, such as libraries,ops (default: all)")
	f.DurationVar(&s.time, "time", 9*time.Minute, "time limit of the whole run; sections share it")
	f.StringVar(&s.json, "json", "", "write a report to this file")
	f.StringVar(&s.data, "data", "", "CIFAR-10, the archive or the folder of its .bin files, for a short real training")
	f.StringVar(&s.bin, "bin", "", "folder of launch, cifar10 and gpucheck-tests (default: that of gpucheck)")
	f.StringVar(&s.python, "python", "python3", "the interpreter that has PyTorch")
	f.IntVar(&s.device, "device", 0, "the GPU's number")
	f.IntVar(&s.epochs, "epochs", 24, "epochs of the real training")
	f.BoolVar(&s.small, "small", false, "tiny sizes, for stand-ins of the libraries: speeds mean nothing")
	f.BoolVar(&s.list, "list", false, "list the sections and exit")
	f.StringVar(&s.section, "section", "", "run one section here: how gpucheck calls itself")
	f.BoolVar(&s.exchange, "exchange", false, "be a worker of a job that only pushes and pulls: how gpucheck measures the store")
	version.AddFlag(f)
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return exitUsage
	}
	usage := func(format string, args ...any) int {
		fmt.Fprintf(errs, "gpucheck: "+format+"; see gpucheck -h\n", args...)
		return exitUsage
	}
	if f.NArg() > 0 {
		return usage("got %q after the flags, want flags only", f.Arg(0))
	}
	if s.time < time.Second || s.epochs < 1 || s.device < 0 {
		return usage("-time is %s, -epochs %d and -device %d, want at least 1s, 1 and 0", s.time, s.epochs, s.device)
	}
	if s.bin == "" {
		if path, err := os.Executable(); err == nil {
			s.bin = filepath.Dir(path)
		}
	}
	if s.section != "" {
		return child(ctx, s)
	}
	if s.exchange {
		if err := exchange(ctx, s, out); err != nil {
			fmt.Fprintln(errs, "gpucheck:", err)
			return exitBad
		}
		return 0
	}
	if s.list {
		for _, sec := range sections {
			fmt.Fprintf(out, "%-11s %s\n", sec.name, sec.about)
		}
		return 0
	}
	chosen, err := choose(s.sections)
	if err != nil {
		return usage("%v", err)
	}
	return parent(ctx, s, chosen, out)
}

// choose returns the sections of a flag, in their own order.
func choose(names string) ([]section, error) {
	if names == "" {
		return sections, nil
	}
	wanted := map[string]bool{}
	for _, name := range strings.Split(names, ",") {
		wanted[strings.TrimSpace(name)] = true
	}
	var out []section
	for _, sec := range sections {
		if wanted[sec.name] {
			out = append(out, sec)
			delete(wanted, sec.name)
		}
	}
	for name := range wanted {
		return nil, fmt.Errorf("-sections: there is no section %q; -list shows them", name)
	}
	return out, nil
}
