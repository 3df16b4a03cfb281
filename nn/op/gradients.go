package op

import (
	"fmt"

	"gorgonia.org/gorgonia"
)

// Gradients returns the parameters that loss depends on, in the order they were
// made, and for each the node of its gradient.
//
// The first call adds the gradient nodes to the graph (gorgonia.Grad) and
// remembers them; later calls with the same loss return the same nodes, so a
// graph can be given to several executors. gorgonia can differentiate a graph
// once only: another loss is an error.
func Gradients(loss *gorgonia.Node) (params, grads gorgonia.Nodes, err error) {
	g := loss.Graph()
	r := RegistryOf(g)
	if r.loss != nil && r.loss != loss {
		return nil, nil, fmt.Errorf("op: gradients of %q: the graph holds those of %q; build a graph for each loss", loss.Name(), r.loss.Name())
	}
	if r.loss == loss {
		return r.params, r.grads, nil
	}
	if !loss.IsScalar() {
		return nil, nil, fmt.Errorf("op: gradients of %q: it has shape %v, want a scalar", loss.Name(), loss.Shape())
	}
	moves := dependsOn(loss)
	for _, l := range Leaves(g) {
		if l.Role == RoleParameter && moves[l.Node] {
			params = append(params, l.Node)
		}
	}
	if len(params) == 0 {
		return nil, nil, fmt.Errorf("op: gradients of %q: it depends on no parameter", loss.Name())
	}
	if grads, err = gorgonia.Grad(loss, params...); err != nil {
		return nil, nil, fmt.Errorf("op: gradients of %q: %w", loss.Name(), err)
	}
	for i, p := range params {
		if !grads[i].Shape().Eq(p.Shape()) {
			return nil, nil, fmt.Errorf("op: gradients of %q: that of %q has shape %v, want %v", loss.Name(), p.Name(), grads[i].Shape(), p.Shape())
		}
	}
	if err := CheckCollisions(g); err != nil {
		return nil, nil, err
	}
	r.loss, r.params, r.grads = loss, params, grads
	return params, grads, nil
}

// dependsOn is the set of nodes that a change of reaches loss through arguments
// that its ops are differentiable in.
func dependsOn(loss *gorgonia.Node) map[*gorgonia.Node]bool {
	seen := map[*gorgonia.Node]bool{loss: true}
	for todo := (gorgonia.Nodes{loss}); len(todo) > 0; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		children := Children(n)
		d, ok := n.Op().(gorgonia.SDOp)
		if !ok || len(children) == 0 {
			continue
		}
		diff := d.DiffWRT(len(children))
		for i, c := range children {
			if i < len(diff) && diff[i] && !seen[c] {
				seen[c] = true
				todo = append(todo, c)
			}
		}
	}
	return seen
}
