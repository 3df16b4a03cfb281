// Package flagerr says what is wrong with a flag on a command line, where urfave/cli passes on what
// package flag says of it.
package flagerr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

// Unknown is the name of an unknown flag, if that is what the error is about. Package flag says so
// by its text only.
func Unknown(err error) (name string, ok bool) {
	return strings.CutPrefix(err.Error(), "flag provided but not defined: -")
}

// Explain explains an error of package flag. If a flag is unknown, it names the one that was
// perhaps meant; if a flag's value is wrong, it says which values the flag takes. Other errors are
// returned as they are.
func Explain(flags []cli.Flag, err error) error {
	name, ok := Unknown(err)
	if !ok {
		return wantValue(flags, err)
	}
	text := "there is no flag -" + name
	if best := Nearest(flags, name); best != "" {
		text += "; did you mean --" + best + "?"
	}
	return errors.New(text)
}

// wantValue says which values a flag takes, where package flag says only that it could not parse
// this one.
func wantValue(flags []cli.Flag, err error) error {
	text, ok := strings.CutSuffix(err.Error(), ": parse error")
	if !ok {
		return err
	}
	for _, f := range flags {
		for _, name := range f.Names() {
			if !strings.HasSuffix(text, " for flag -"+name) && !strings.HasSuffix(text, " for -"+name) {
				continue
			}
			switch f.(type) {
			case *cli.IntFlag, *cli.Int64Flag:
				return fmt.Errorf("%s: want a whole number", text)
			case *cli.UintFlag, *cli.Uint64Flag:
				return fmt.Errorf("%s: want a whole number, 0 or more", text)
			case *cli.Float64Flag:
				return fmt.Errorf("%s: want a number", text)
			case *cli.DurationFlag:
				return fmt.Errorf("%s: want a time with its unit, such as 30s or 5m", text)
			case *cli.BoolFlag:
				return fmt.Errorf("%s: want true or false", text)
			}
		}
	}
	return err
}

// Nearest is the name of the one flag that begins with name, or of a flag that differs from it by a
// letter or two (Levenshtein's distance); empty: there is none.
func Nearest(flags []cli.Flag, name string) string {
	name = strings.TrimLeft(name, "-")
	if longer := beginWith(flags, name); len(longer) == 1 {
		return longer[0]
	}
	best, least := "", 3
	for _, f := range flags {
		for _, n := range f.Names() {
			if d := smetrics.WagnerFischer(n, name, 1, 1, 1); 2*d < len(n) && d < least {
				best, least = n, d
			}
		}
	}
	return best
}

// beginWith are the names of flags that begin with name; of a letter there are none.
func beginWith(flags []cli.Flag, name string) (longer []string) {
	if len(name) < 2 {
		return nil
	}
	for _, f := range flags {
		for _, n := range f.Names() {
			if strings.HasPrefix(n, name) {
				longer = append(longer, n)
			}
		}
	}
	return longer
}
