package op

import (
	"errors"
	"fmt"
	"sync"

	"gorgonia.org/gorgonia"
)

// Gradients returns the parameters that loss depends on, in the order they were
// made, and for each the node of its gradient.
//
// The first call adds the gradient nodes to the graph (gorgonia.Grad) and
// remembers them; later calls with the same loss return the same nodes, so a
// graph can be given to several executors. gorgonia can differentiate a graph
// once only: another loss is an error. If the program has called gorgonia.Grad
// for this loss itself, the parameters are those it asked for.
func Gradients(loss *gorgonia.Node) (params, grads gorgonia.Nodes, err error) {
	g := loss.Graph()
	differentiating.Lock()
	defer differentiating.Unlock()
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
	if loss.Deriv() != nil {
		params, grads, err = differentiated(loss)
	} else {
		params, grads, err = differentiate(loss)
	}
	if err != nil {
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

// differentiate adds the gradient nodes of loss to its graph.
func differentiate(loss *gorgonia.Node) (params, grads gorgonia.Nodes, err error) {
	moves := dependsOn(loss)
	for _, l := range Leaves(loss.Graph()) {
		if l.Role == RoleParameter && moves[l.Node] {
			params = append(params, l.Node)
		}
	}
	if len(params) == 0 {
		for n := range moves {
			if IsUnset(n) {
				return nil, nil, fmt.Errorf("it depends on no parameter: leaf %q has no value and so counts as an input; give parameters their values "+
					"(gorgonia.WithInit, WithValue or Let) before", n.Name())
			}
		}
		return nil, nil, errors.New("it depends on no parameter")
	}
	grads, err = gorgonia.Grad(loss, params...)
	return params, grads, err
}

// differentiating is held while a graph is differentiated and its hashes are looked at: gorgonia's
// constants are nodes that all graphs of a process share, and keep their hashes in themselves.
var differentiating sync.Mutex

// differentiated finds the gradient nodes that gorgonia.Grad has left.
func differentiated(loss *gorgonia.Node) (params, grads gorgonia.Nodes, err error) {
	for it := loss.Graph().To(loss.ID()); it.Next(); {
		if it.Node().(*gorgonia.Node).Deriv() != nil {
			return nil, nil, errors.New("the graph was differentiated for another loss, of which this is a part; build a graph for each loss")
		}
	}
	for _, l := range Leaves(loss.Graph()) {
		if l.Role == RoleParameter && l.Node.Deriv() != nil {
			params, grads = append(params, l.Node), append(grads, l.Node.Deriv())
		}
	}
	if len(params) == 0 {
		return nil, nil, errors.New("gorgonia.Grad was called for no parameter")
	}
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
