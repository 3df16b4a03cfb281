package kvstore

import (
	"errors"
	"flag"
	"io/fs"
	"os"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
)

// ErrFinal is in the chain of errors that no restart can mend: a wrong setting, a folder with
// another run's checkpoints, a checkpoint of another model. Create and worker.Fit tell launch of
// such an error when they return it, and Leave of one that it is given; for a program's own errors
// Final does. When the process then ends with a code other than 0, launch starts neither it nor the
// job again, whatever --restarts, --rejoin and --on-worker-loss say, and ends the job with that
// code. (A worker that has not joined the running job yet ends alone: the others go on.)
var ErrFinal = exitreport.ErrFinal

// Final says that no restart can mend err, and tells launch so, if launch started this process. It
// returns err with ErrFinal in its chain and its text as it was; nil stays nil. The program is to
// end with it:
//
//	images, err := load(path)
//	if errors.Is(err, fs.ErrNotExist) {
//		return kvstore.Final(err)
//	}
func Final(err error) error {
	if err == nil {
		return nil
	}
	cause := exitreport.Program
	if errors.Is(err, fs.ErrNotExist) {
		cause = exitreport.MissingFile
	}
	err = exitreport.Final(cause, err)
	exitreport.Tell(os.Getenv, err)
	return err
}

// ParseFlags is flag.Parse for a worker's program: a wrong flag ends it with code 2, as flag.Parse
// does, and launch hears that no restart can mend it. With -h or -help the program ends with code 0.
func ParseFlags() {
	flag.CommandLine.Init(os.Args[0], flag.ContinueOnError)
	switch err := flag.CommandLine.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil: // the flag package has printed it
		exitreport.Tell(os.Getenv, exitreport.Final(exitreport.Usage, err))
		os.Exit(2)
	}
}

// finalLoad marks an error of a file to load that another try would meet again. Others, such as
// those of a network, stay as they are.
func finalLoad(err error) error {
	switch {
	case errors.Is(err, checkpoint.ErrDamaged):
		return exitreport.Final(exitreport.Damaged, err)
	case errors.Is(err, fs.ErrNotExist):
		return exitreport.Final(exitreport.MissingFile, err)
	case errors.Is(err, checkpoint.ErrScheme):
		return exitreport.Final(exitreport.Usage, err)
	}
	return err
}
