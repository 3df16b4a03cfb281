package tune

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/optuna"
	"github.com/paragon-train/paragon/tune/study"
)

// optunaFlag names the file of a study of Optuna's.
func optunaFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "optuna", Usage: "`FILE` with an Optuna study (docs/how-to/optuna.md)", Required: true}
}

// exportCommand is `launch tune export`.
func exportCommand(out io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write a study's trials as a file for Optuna",
		ArgsUsage: "DIR",
		Description: `Writes the trials that have ended, with parameters, distributions, values, reports and other metrics, as JSON. docs/how-to/optuna.md has a
script that reads the file into a study of Optuna's:

   launch tune export --optuna study.json runs/mnist`,
		Flags: []cli.Flag{optunaFlag()},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return command.Usagef("tune export: got %d arguments, want the folder of a study: launch tune export --optuna FILE DIR", c.NArg())
			}
			path, err := logFile(c.Args().First())
			if err != nil {
				return err
			}
			r, err := tune.ReadResult(path)
			if err != nil {
				return err
			}
			f := optuna.Export(r.Name, r.View())
			if err := vfs.WriteFile(vfs.OS{}, c.String("optuna"), f.Write); err != nil {
				return fmt.Errorf("launch: tune: export: %w", err)
			}
			fmt.Fprintf(out, "%s of %d written to %s\n", plural.Of(len(f.Trials), "trial"), len(r.Trials()), c.String("optuna"))
			return nil
		},
	}
}

// importCommand is `launch tune import`. The new study begins where the old one ended, so its
// folder must not hold a search yet.
func importCommand(out io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "import",
		Usage:     "begin a study with the trials of an Optuna study",
		ArgsUsage: "STUDY.YAML",
		Description: `Begins the study with the trials of the file, which a script in docs/how-to/optuna.md writes. The study's space must have their
parameters. Its samples count the imported trials. launch tune --resume goes on from there:

   launch tune import --optuna study.json study.yaml
   launch tune --resume study.yaml`,
		Flags: []cli.Flag{optunaFlag(), &cli.StringFlag{Name: "dir", Usage: "the study's `FOLDER`", DefaultText: "from the file, or runs/NAME"}},
		Action: func(c *cli.Context) (err error) {
			if c.NArg() != 1 {
				return command.Usagef("tune import: got %d arguments, want the file of the study: launch tune import --optuna FILE STUDY.YAML", c.NArg())
			}
			name := c.Args().First()
			s, err := study.Load(name)
			if err != nil {
				return err
			}
			if c.IsSet("dir") {
				s.Config.Dir = c.String("dir")
			}
			file, err := os.Open(c.String("optuna"))
			if err != nil {
				return fmt.Errorf("launch: tune: import: %w", err)
			}
			defer file.Close()
			f, err := optuna.Read(file)
			if err != nil {
				return fmt.Errorf("launch: tune: import %s: %w", c.String("optuna"), err)
			}
			if err := tryImport(f, name); err != nil {
				return fmt.Errorf("launch: tune: import %s: %w", c.String("optuna"), err)
			}
			cfg := s.Config
			cfg.Observers = []tune.Observer{&keepFile{s: s}}
			one, err := tune.NewStudy(cfg)
			if errors.Is(err, tune.ErrExists) {
				return fmt.Errorf("launch: tune: %s already holds a search: import into another --dir", cfg.Dir)
			}
			if err != nil {
				return err
			}

			// Close writes the log's end, so its error counts.
			defer func() { err = errors.Join(err, one.Close()) }()
			added, left, err := f.Import(one, cfg.Scope)
			if err != nil {
				return fmt.Errorf("launch: tune: import %s: %w", c.String("optuna"), err)
			}
			said := ""
			if left > 0 {
				said = fmt.Sprintf(", %d that had not ended or had no value left out", left)
			}
			fmt.Fprintf(out, "%s added to %s%s; to go on: launch tune --resume %s\n", plural.Of(added, "trial"), cfg.Dir, said, ssh.Quote([]string{resumeWord(name, s)}))
			return nil
		},
	}
}

// tryImport adds the trials to a study without a folder: a trial that does not fit the study of the
// file name is found before a folder is made.
func tryImport(f *optuna.File, name string) error {
	// The study is loaded anew: a suggester, scheduler or pruner serves one study.
	s, err := study.Load(name)
	if err != nil {
		return err
	}
	cfg := s.Config
	cfg.Dir, cfg.StatusListen = "", ""
	one, err := tune.NewStudy(cfg)
	if err != nil {
		return err
	}
	_, _, err = f.Import(one, cfg.Scope)
	return errors.Join(err, one.Close())
}
