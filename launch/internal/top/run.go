package top

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/paragon-train/paragon/internal/member/control"
)

// Run shows the job in a terminal until the user quits. started is when the job was.
func Run(ctx context.Context, source Source, started time.Time, in io.Reader, out io.Writer) error {
	// Bubbletea's own handler would lose a signal that comes while the program is suspended.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// Bubbletea restores the terminal at the end, when ctx ends, and after a panic. The screen
	// changes once a second.
	_, err := tea.NewProgram(newModel(ctx, source, started, time.Now()), tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithInput(in), tea.WithOutput(out), tea.WithFPS(10)).Run()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("launch: top: %w", err)
	}
	return nil
}

// onceFor bounds how long Once asks for rates: a program that takes no step has none.
const onceFor = 6 * time.Second

// A Document is everything at one time, for scripts.
type Document struct {
	Telemetry *control.Telemetry `json:"telemetry"`
	Rates     Snapshot           `json:"rates"`
	Waits     []control.Wait     `json:"waits"`
	Behind    []string           `json:"behind,omitempty"`
}

// Once asks until all processes have rates, for a few seconds at most.
func Once(ctx context.Context, source Source) (*Document, error) {
	var h History
	d := &Document{}
	for begin := time.Now(); ; {
		d.Telemetry = &control.Telemetry{}
		if _, err := source.Ask(ctx, control.Request{Op: control.OpTelemetry, Metrics: Names(false)}, d.Telemetry); err != nil {
			return nil, err
		}
		h.Add(d.Telemetry)
		if h.Settled() || time.Since(begin) >= onceFor {
			break
		}
		select {
		case <-time.After(second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var why control.Why
	if _, err := source.Ask(ctx, control.Request{Op: control.OpWhy}, &why); err != nil {
		return nil, err
	}
	d.Rates, d.Waits, d.Behind = h.Snapshot(), why.Waits, why.Behind
	if d.Waits == nil {
		d.Waits = []control.Wait{}
	}
	return d, nil
}
