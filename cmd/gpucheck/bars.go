package main

import (
	"fmt"
	"strings"
)

// bars compares the speeds of this run with PyTorch's and with each other.
func bars(rows []row) []row {
	best := func(section, prefix, suffix string) (float64, string) {
		top, name := 0.0, ""
		for _, r := range rows {
			if r.Section == section && strings.HasPrefix(r.Name, prefix) && strings.HasSuffix(r.Name, suffix) && r.Unit == "images/s" && r.Value > top {
				top, name = r.Value, r.Name
			}
		}
		return top, name
	}
	ours, how := best("steps", "bf16", "graphs")
	var out []row
	bar := func(name string, value, of, bound, aim float64, detail string) {
		if value == 0 || of == 0 {
			return
		}
		r := row{Section: "bars", Name: name, Status: ok, Value: value / of, Unit: "×", Bound: bound, Detail: fmt.Sprintf("%s; aim %g ×", detail, aim)}
		if r.Value < bound {
			r.Status = miss
		}
		out = append(out, r)
	}
	compiled, name := best("torch", "compile bf16", "")
	bar("GPU only, of torch.compile", ours, compiled, 1, 1.3, fmt.Sprintf("%s: %.0f images/s; %s: %.0f", how, ours, name, compiled))
	eager, name := best("torch", "eager bf16", "")
	bar("GPU only, of eager PyTorch", ours, eager, 1.3, 2, fmt.Sprintf("%s: %.0f images/s; %s: %.0f", how, ours, name, eager))
	end, name := best("endtoend", endToEndName, "")
	bar("end to end, of GPU only", end, ours, 0.6, 0.9, fmt.Sprintf("%s: %.0f images/s; %s: %.0f", name, end, how, ours))
	if ours > 0 {
		out = append(out, row{Section: "bars", Name: "GPU only, of 85,000 images/s", Status: info, Value: ours / 85000, Unit: "×", Detail: how})
	}
	return out
}
