package nn

import (
	"fmt"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/files/patterns"
)

const (
	meanSuffix     = ".running_mean"
	varianceSuffix = ".running_var"
)

// freeze takes what Config.Freeze matches out of the parameters that get gradients, and names the
// normalisations that use their running statistics.
func (r *request) freeze(list []string) error {
	if len(list) == 0 {
		return nil
	}
	freeze, err := patterns.New("Config.Freeze", list)
	if err != nil {
		return err
	}
	r.freezes, r.Frozen = make(map[string]bool), make(map[string]bool)
	var params, grads gorgonia.Nodes
	var names []string
	for i, n := range r.Params {
		names = append(names, n.Name())
		if freeze.Match(n.Name()) {
			r.freezes[n.Name()] = true
			continue
		}
		params, grads = append(params, n), append(grads, r.Grads[i])
	}
	r.Params, r.Grads = params, grads
	for _, s := range op.States(r.Root.Graph()) {
		layer, isMean := strings.CutSuffix(s.Name, meanSuffix)
		if isMean && freeze.Match(s.Name) {
			r.Frozen[layer], r.freezes[s.Name], r.freezes[layer+varianceSuffix] = true, true, true
		}
	}
	if unused := freeze.Unused(); len(unused) > 0 {
		return fmt.Errorf("Config.Freeze: %q matches no parameter and no running_mean; parameters are such as %q", unused[0], names[:min(len(names), 4)])
	}
	if len(params) == 0 {
		return fmt.Errorf("Config.Freeze: %q freezes all %d parameters, want at least one that is trained", list, len(names))
	}
	return nil
}
