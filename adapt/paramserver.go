package adapt

import (
	"fmt"
	"math"
)

// A Cluster is what is known about the machines of a parameter-server job.
type Cluster struct {
	// Bytes of the model's parameters. A step pushes as many and pulls as many.
	Bytes int64
	// Servers is the number of servers of timings that do not give theirs, and of predictions.
	Servers int
	// SharedMemory: servers are spread evenly over the workers' nodes, and what stays on a node
	// goes through its memory. Otherwise all traffic of a node's workers passes its link.
	SharedMemory bool
	// Bytes a second, pushes and pulls together, of one worker's connections, of one server's
	// and of one node's link. No time is estimated to be less than they allow. 0: not known.
	WorkerBandwidth, ServerBandwidth, NodeBandwidth float64
}

// Validate is an error where a number is missing or not possible.
func (c Cluster) Validate() error {
	if c.Bytes < 1 {
		return fmt.Errorf("Cluster.Bytes is %d, want at least 1", c.Bytes)
	}
	if c.Servers < 1 {
		return fmt.Errorf("Cluster.Servers is %d, want at least 1", c.Servers)
	}
	for _, b := range []struct {
		name  string
		value float64
	}{{"WorkerBandwidth", c.WorkerBandwidth}, {"ServerBandwidth", c.ServerBandwidth}, {"NodeBandwidth", c.NodeBandwidth}} {
		if !(b.value >= 0) || !finite(b.value) {
			return fmt.Errorf("Cluster.%s is %g bytes/s, want a positive number, or 0 where it is not known", b.name, b.value)
		}
	}
	return nil
}

// traffic is the bytes that a worker moves in a step.
func (c Cluster) traffic() float64 { return 2 * float64(c.Bytes) }

// ParameterServer is the model of a job whose workers exchange gradients and values with servers.
// With K workers, k of them on the fullest of N nodes, S servers, B bytes moved by each worker, and
// local batches of m examples:
//
//	T_grad(m)  = (AlphaCompute + BetaCompute·m) · (1 + Contention·(k−1))
//	T_net      = Latency + max(Worker·B, Server·B·K/S, Node·B·k·r, Memory·B·k·(1−r)) + Update·B/S
//	T_close    = (T_grad^Gamma + T_net^Gamma)^(1/Gamma)
//	step       = s·T_grad + T_close
//
// r is the part of the traffic that leaves its node: 1 without shared memory, and (N−1)/N with it.
// The maximum is the norm with exponent 10, which is at most 15 % above it, so that it has
// derivatives. Contention is what workers on one node take from each other's computing (cores,
// memory bandwidth); Update also is what servers do for each byte however many workers there are.
type ParameterServer struct {
	// AlphaCompute is in seconds, BetaCompute in seconds an example.
	AlphaCompute, BetaCompute float64
	// Contention is a share of the computing time, for each further worker on a node.
	Contention float64
	// Latency is in seconds.
	Latency float64
	// Worker and Server are in seconds a byte of one worker's, and of one server's traffic.
	Worker, Server float64
	// Node and Memory are in seconds a byte of a node's link, and of a node's memory.
	Node, Memory float64
	// Update is in seconds a byte of one server's part of the traffic.
	Update float64
	// Gamma is the overlap of computing and exchange: 1 is none, 10 all but complete.
	Gamma   float64
	Cluster Cluster
}

// StepTime implements Model, for Cluster.Servers.
func (p ParameterServer) StepTime(nodes, replicas, localBatch, accumulation int) float64 {
	c := p.costs(nodes, replicas)
	return c.time(float64(localBatch), float64(accumulation))
}

// WithServers is the model of the same job with another number of servers. It panics where the
// number is below 1.
func (p ParameterServer) WithServers(servers int) Model {
	if servers < 1 {
		panic(fmt.Sprintf("adapt: ParameterServer.WithServers: %d servers, want at least 1", servers))
	}
	p.Cluster.Servers = servers
	return p
}

func (p ParameterServer) costs(nodes, replicas int) stepCosts {
	t := trafficOf(nodes, replicas, p.Cluster.Servers, p.Cluster.SharedMemory)
	b := p.Cluster.traffic()
	crowded := 1 + p.Contention*(t.onNode-1)
	return stepCosts{
		alpha: p.AlphaCompute * crowded,
		beta:  p.BetaCompute * crowded,
		exchange: max(p.Latency+slowest([links]float64{p.Worker * b, p.Server * b * t.perServer, p.Node * b * t.leaving, p.Memory * b * t.staying})+
			p.Update*b*t.part, tiny),
		gamma: p.Gamma,
	}
}

// A traffic has the multiples of a worker's traffic that pass each place.
type traffic struct {
	// onNode is the number of workers on the fullest node.
	onNode float64
	// perServer passes through a server, leaving through a node's link, and staying through a
	// node's memory.
	perServer, leaving, staying float64
	// part is the share of the parameters on one server.
	part float64
}

func trafficOf(nodes, replicas, servers int, sharedMemory bool) traffic {
	onNode := float64((replicas-1)/nodes + 1)
	leaving := onNode
	if sharedMemory {
		leaving *= float64(nodes-1) / float64(nodes)
	}
	return traffic{onNode, float64(replicas) / float64(servers), leaving, onNode - leaving, 1 / float64(servers)}
}

// links is the number of places of which the slowest counts.
const links = 4

// slowest is the norm with exponent 10 of times.
func slowest(t [links]float64) float64 {
	s, _ := slowestSlope(t)
	return s
}

// slowestSlope has the derivatives as well.
func slowestSlope(t [links]float64) (s float64, slope [links]float64) {
	largest := 0.0
	for _, x := range t {
		largest = max(largest, x)
	}
	if largest == 0 {
		return 0, slope
	}
	var sum float64
	for i, x := range t {
		x /= largest
		slope[i] = ninth(x)
		sum += slope[i] * x
	}
	norm := math.Pow(sum, 0.1)
	by := ninth(norm)
	for i := range slope {
		slope[i] /= by
	}
	return largest * norm, slope
}

func ninth(x float64) float64 {
	cube := x * x * x
	return cube * cube * cube
}
