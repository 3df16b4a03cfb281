package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A row is one comparison. Each side returns the seconds of an operation.
type row struct {
	name string
	// other names what Python is compared with.
	other        string
	python, peer side
	// added says that what counts is the time that Python adds, and not the ratio.
	added bool
	// sized says that a turn's length follows from the turn before.
	sized bool
}

// A side plays one turn.
type side func(ctx context.Context, b *bench, lastSeconds float64) (seconds float64, err error)

// spellTime is how long the steps of one turn of a training take, about.
const spellTime = 4 * time.Second

// rows are those of --rows.
func (b *bench) rows() []row {
	var rows []row
	for _, transport := range []string{"tcp", "auto"} {
		for _, api := range []string{"torch", "arrays", "views"} {
			rows = append(rows, row{name: fmt.Sprintf("round/transport=%s/values=%s", transport, api), other: "Go",
				python: kvSide(transport, "2x2", "resnet18", api), peer: kvSide(transport, "2x2", "resnet18", "")})
		}
	}
	for _, jobs := range []string{"1x1", "2x2"} {
		for _, api := range []string{"views", "arrays"} {
			rows = append(rows, row{name: fmt.Sprintf("keys/jobs=%s/values=%s", jobs, api), other: "Go", added: true,
				python: kvSide("auto", jobs, "many/keys62", api), peer: kvSide("auto", jobs, "many/keys62", "")})
		}
	}
	for _, model := range []string{"resnet18-cifar", "resnet18-imagenet"} {
		rows = append(rows, row{name: "step/model=" + model + "/batch=64", other: "DDP", sized: true, python: ourStep(model), peer: ddpStep(model)})
	}
	return rows
}

// kvSide plays a work of bench/kv in a job of so many workers x servers: by Go's workers, or by
// Python's with values of a kind.
func kvSide(transport, jobs, work, api string) side {
	return func(ctx context.Context, b *bench, _ float64) (float64, error) {
		args := []string{"-jobs", jobs, "-count", "1", "-work", work, "-scale", strconv.FormatFloat(b.scale, 'g', -1, 64)}
		label := transport
		if api == "" {
			args = append(args, "-transport", transport)
		} else {
			label = api
			args = append(args, "-transport", "", "-peer", strings.Join([]string{api + "=" + b.python, b.scripts + "/python/peer.py", b.kv, transport, api}, " "))
		}
		out, err := b.output(ctx, b.kv, args...)
		if err != nil {
			return 0, err
		}
		line := regexp.MustCompile(`(?m)^BenchmarkKV/work=` + regexp.QuoteMeta(work) + `/\S*transport=` + label + `\s+\d+\s+(\d+) ns/op`)
		m := line.FindStringSubmatch(out)
		if m == nil {
			return 0, fmt.Errorf("bench/kv has no result for work %s over %s: %s", work, label, out)
		}
		ns, err := strconv.ParseFloat(m[1], 64)
		return ns / 1e9, err
	}
}

// spellLine is a worker's line, behind its name where launch prints it.
var spellLine = regexp.MustCompile(`(?m)^(?:worker \d+ +\| )?spell (\d+) ([0-9.e+-]+) ([0-9.e+-]+)$`)

// stepsFor is how many steps fill a turn, given what one took before.
func stepsFor(b *bench, seconds float64) string {
	if seconds == 0 {
		return "3"
	}
	return strconv.Itoa(max(3, int(b.scale*spellTime.Seconds()/seconds)))
}

// ourStep trains with paragon.torch in two workers of launch, with two servers.
func ourStep(model string) side {
	return func(ctx context.Context, b *bench, last float64) (float64, error) {
		return b.spell(ctx, b.launch, "-n", "2", "-s", "2", "--", b.python, b.scripts+"/python/step.py", model, "64", stepsFor(b, last))
	}
}

// ddpStep trains with DistributedDataParallel in two processes.
func ddpStep(model string) side {
	return func(ctx context.Context, b *bench, last float64) (float64, error) {
		return b.spell(ctx, b.python, b.scripts+"/peers/pytorch.py", "train", model, "64", "2", stepsFor(b, last))
	}
}

// spell runs a training of two processes and returns the seconds of a step, the slower one's.
func (b *bench) spell(ctx context.Context, args ...string) (float64, error) {
	out, err := b.output(ctx, args[0], args[1:]...)
	if err != nil {
		return 0, err
	}
	spells := spellLine.FindAllStringSubmatch(out, -1)
	if len(spells) != 2 {
		return 0, fmt.Errorf("%s: got %d lines with a spell, want 2:\n%s", strings.Join(args, " "), len(spells), out)
	}
	longest := 0.0
	for _, s := range spells {
		steps, err := strconv.ParseFloat(s[1], 64)
		if err != nil {
			return 0, err
		}
		seconds, err := strconv.ParseFloat(s[2], 64)
		if err != nil {
			return 0, err
		}
		longest = max(longest, seconds/steps)
	}
	return longest, nil
}
