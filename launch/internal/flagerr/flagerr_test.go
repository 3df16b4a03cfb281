package flagerr_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/flagerr"
)

func TestExplain(t *testing.T) {
	refused := errors.New("the program's own")
	for _, c := range []struct {
		arg, want string
	}{
		{"--epochz=2", "there is no flag -epochz; did you mean --epochs?"},
		{"--qui", "there is no flag -qui; did you mean --quiet?"},
		{"--s=1", "there is no flag -s"},
		{"--nothing-like-it", "there is no flag -nothing-like-it"},
		{"--epochs=many", `invalid value "many" for flag -epochs: want a whole number`},
		{"--seed=-1", `invalid value "-1" for flag -seed: want a whole number, 0 or more`},
		{"--steps=1.5", `invalid value "1.5" for flag -steps: want a whole number, 0 or more`},
		{"--lr=fast", `invalid value "fast" for flag -lr: want a number`},
		{"--every=5", `invalid value "5" for flag -every: want a time with its unit, such as 30s or 5m`},
		{"--quiet=maybe", `invalid boolean value "maybe" for -quiet: want true or false`},
		{"--epochs", "flag needs an argument: -epochs"},
	} {
		app := &cli.App{Writer: io.Discard, ErrWriter: io.Discard, Flags: []cli.Flag{
			&cli.IntFlag{Name: "epochs"}, &cli.Uint64Flag{Name: "seed"}, &cli.UintFlag{Name: "steps"}, &cli.Float64Flag{Name: "lr"},
			&cli.DurationFlag{Name: "every", Value: time.Second}, &cli.BoolFlag{Name: "quiet"},
		}}
		app.OnUsageError = func(c *cli.Context, err error, _ bool) error { return flagerr.Explain(c.App.VisibleFlags(), err) }
		if err := app.Run([]string{"program", c.arg}); err == nil || err.Error() != c.want {
			t.Errorf("%s: got error %v, want %s", c.arg, err, c.want)
		}
	}
	if err := flagerr.Explain(nil, refused); err != refused { //nolint:errorlint // not even wrapped
		t.Errorf("got error %v, want it as it was", err)
	}
}
