package tune

// A Reporter is a trial's way to talk to its study. Its methods may be called
// from several goroutines of the trial, but reports come in order of their steps.
type Reporter struct{}

type runState struct{}
