package tune

// stops are the reasons for which a study starts no new trials, or has ended. A resume begins with
// none of them but enough.
type stops struct {
	// exhausted says that there are no new trials, noMore that this is so by the deadline: it
	// is the rule; "": it is not the reason.
	exhausted bool
	noMore    string
	// failedOnly says that the study was resumed for failed trials alone.
	failedOnly bool
	// halted is the rule that ended the study, "" if none did, and haltErr the error with it.
	halted, haltErr string
	// enough is the rule of a pruner that ended the study, which a resume does not undo.
	enough string
}

// resume undoes what the config of another process may decide anew.
func (s *stops) resume() { *s = stops{enough: s.enough} }

// exhaust takes note that there are no new trials.
func (s *stops) exhaust(e *Event) { s.exhausted, s.noMore = true, e.Rule }

// halt takes note that the study has ended.
func (s *stops) halt(e *Event) { s.halted, s.haltErr = e.Rule, e.Error }
