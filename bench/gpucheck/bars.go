package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// targets are gradients' relative errors that are asked for, by type and by the end of the rows'
// names. What rounding to 16 bits turns over at a ReLU is no error: there the reference rounds at
// the same places (note 24).
var targets = []struct {
	name, suffix string
	bound        float64
}{{"gradient against the reference, float32", ", float32" + gputest.Gradient, 1e-5}, {"gradient against the reference rounding as it does, bf16", ", bf16" + gputest.RoundedGradient, 1e-2}}

// bars compares the speeds of this run with PyTorch's and with each other, and gathers the
// gradients' errors. What was not measured is a row that says so; of tiny networks a speed is no
// more than told.
func bars(rows []row, small bool) []row {
	looked := func(section string) bool {
		return slices.ContainsFunc(rows, func(r row) bool { return r.Section == section })
	}
	best := func(section string, of func(name string) bool) (float64, string) {
		top, name := 0.0, ""
		for _, r := range rows {
			if r.Section == section && of(r.Name) && r.Unit == "images/s" && r.Value > top {
				top, name = r.Value, r.Name
			}
		}
		return top, name
	}
	ours, how := best("steps", func(name string) bool { return strings.HasPrefix(name, "bf16") && strings.HasSuffix(name, ", graphs") })
	var out []row
	bar := func(name string, value, of, bound, aim float64, detail string) {
		r := row{Section: "bars", Name: name, Status: ok, Bound: bound, Unit: "×", Detail: fmt.Sprintf("%s; aim %g ×", detail, aim)}
		switch {
		case value == 0 || of == 0:
			r = row{Section: "bars", Name: name, Status: skip, Detail: "one of the two was not measured"}
		default:
			if r.Value = value / of; small {
				// The speeds of such a run mean nothing.
				r.Status = info
			} else if r.Value < bound {
				r.Status = miss
			}
		}
		out = append(out, r)
	}
	if looked("steps") && looked("torch") {
		for _, v := range []struct {
			name       string
			variants   []string
			bound, aim float64
		}{{"GPU only, of torch.compile", []string{"compile", "compile-graph", "reduce-overhead", "max-autotune"}, 1, 1.3}, {"GPU only, of eager PyTorch", []string{"eager"}, 1.3, 2}} {
			top, name := best("torch", func(name string) bool {
				variant, rest, _ := strings.Cut(name, " ")
				return slices.Contains(v.variants, variant) && strings.HasPrefix(rest, "bf16,")
			})
			bar(v.name, ours, top, v.bound, v.aim, fmt.Sprintf("%s: %.0f images/s; %s: %.0f", how, ours, name, top))
		}
	}
	if looked("steps") && looked("endtoend") {
		end, name := best("endtoend", func(name string) bool { return strings.HasPrefix(name, endToEndName) })
		bar("end to end, of GPU only", end, ours, 0.6, 0.9, fmt.Sprintf("%s: %.0f images/s; %s: %.0f", name, end, how, ours))
	}
	if ours > 0 {
		out = append(out, row{Section: "bars", Name: "GPU only, of 85,000 images/s", Status: info, Value: ours / 85000, Unit: "×", Detail: how})
	}
	if looked("gradients") {
		for _, t := range targets {
			out = append(out, gradientBar(rows, t.name, t.suffix, t.bound))
		}
	}
	return out
}

// gradientBar is the largest error of gradients against the reference; that of others is told.
func gradientBar(rows []row, name, suffix string, bound float64) row {
	bar := row{Section: "bars", Name: name, Status: skip, Detail: "it was not measured"}
	var all []string
	for _, r := range rows {
		if r.Section != "gradients" || !strings.HasSuffix(r.Name, suffix) {
			continue
		}
		all = append(all, fmt.Sprintf("%s %.3g %s", strings.TrimSuffix(r.Name, suffix), r.Value, r.Detail))
		if (strings.HasSuffix(suffix, gputest.RoundedGradient) || strings.HasPrefix(r.Detail, gputest.AgainstReference)) && gputest.Worse(r.Value, bar.Value) {
			bar.Value, bar.Unit, bar.Bound, bar.Status = r.Value, r.Unit, bound, ok
		}
	}
	if bar.Unit != "" {
		bar.Detail = strings.Join(all, "; ")
		if !(bar.Value <= bound) {
			bar.Status = miss
		}
	}
	return bar
}
