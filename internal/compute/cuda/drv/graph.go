package drv

// A Graph is work that was captured from a stream, a GraphExec is it made ready to be launched
// again and again.
type (
	Graph     uintptr
	GraphExec uintptr
)

// BeginCapture begins to collect what this thread puts into s, in place of doing it. Other streams
// join by waiting for an event recorded in s, and must be joined again by the same means before
// EndCapture. Until then the thread must not take or free memory, nor wait.
func (t *Thread) BeginCapture(s Stream) error {
	if code := t.call(t.driver.f.cuStreamBeginCapture, uintptr(s), captureThreadLocal); code != success {
		return t.fail(code, "cuStreamBeginCapture_v2")
	}
	return nil
}

// EndCapture ends it. After an error within the capture it answers one too, and s is an ordinary
// stream again in any case.
func (t *Thread) EndCapture(s Stream) (Graph, error) {
	if code := t.call(t.driver.f.cuStreamEndCapture, uintptr(s), t.number()); code != success {
		return 0, t.fail(code, "cuStreamEndCapture")
	}
	return Graph(t.num[0]), nil
}

// Instantiate makes a graph ready. The graph may be destroyed after.
func (t *Thread) Instantiate(g Graph) (GraphExec, error) {
	if code := t.call(t.driver.f.cuGraphInstantiateWithFlags, t.number(), uintptr(g), 0); code != success {
		return 0, t.fail(code, "cuGraphInstantiateWithFlags")
	}
	return GraphExec(t.num[0]), nil
}

// Upload prepares the first launch, which is slower otherwise.
func (t *Thread) Upload(e GraphExec, s Stream) error {
	if code := t.call(t.driver.f.cuGraphUpload, uintptr(e), uintptr(s)); code != success {
		return t.fail(code, "cuGraphUpload")
	}
	return nil
}

// GraphLaunch puts a graph into a stream. Two launches of one GraphExec are done one after the
// other.
func (t *Thread) GraphLaunch(e GraphExec, s Stream) error {
	if code := t.call(t.driver.f.cuGraphLaunch, uintptr(e), uintptr(s)); code != success {
		return t.fail(code, "cuGraphLaunch")
	}
	return nil
}

// DestroyGraph gives a graph back.
func (t *Thread) DestroyGraph(g Graph) error {
	if code := t.call(t.driver.f.cuGraphDestroy, uintptr(g)); code != success {
		return t.fail(code, "cuGraphDestroy")
	}
	return nil
}

// DestroyGraphExec gives a graph that was made ready back. A launch that is under way ends.
func (t *Thread) DestroyGraphExec(e GraphExec) error {
	if code := t.call(t.driver.f.cuGraphExecDestroy, uintptr(e)); code != success {
		return t.fail(code, "cuGraphExecDestroy")
	}
	return nil
}
