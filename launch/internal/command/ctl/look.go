package ctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// look asks the scheduler for something and writes it.
func look(c *cli.Context, op string, answer control.Answer, write func(w io.Writer, k *controller) error) error {
	if c.NArg() > 0 {
		return command.Usagef("ctl %s: got %q, want flags only", op, c.Args().First())
	}
	k, err := findJob(c, record.Find)
	if err != nil {
		return err
	}
	raw, err := k.ask(c.Context, control.Request{Op: op}, answer)
	if err != nil {
		return err
	}
	if !c.Bool("json") {
		return write(c.App.Writer, k)
	}

	// The answer is printed as it came: a scheduler of a later version may have fields that
	// this program does not know.
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("launch: ctl %s: %w", op, err)
	}
	b.WriteByte('\n')
	_, err = b.WriteTo(c.App.Writer)
	return err
}
