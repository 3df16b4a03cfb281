package wire

import "strconv"

// kinds has each kind's name and a function that returns its empty message.
var kinds = [...]struct {
	name string
	make func() Message
}{
	KindAck:          {"ack", func() Message { return new(Ack) }},
	KindNack:         {"nack", func() Message { return new(Nack) }},
	KindRegister:     {"register", func() Message { return new(Register) }},
	KindRegistered:   {"registered", func() Message { return new(Registered) }},
	KindWatch:        {"watch", func() Message { return new(Watch) }},
	KindMembership:   {"membership", func() Message { return new(Membership) }},
	KindHeartbeat:    {"heartbeat", func() Message { return new(Heartbeat) }},
	KindDeclare:      {"declare", func() Message { return new(Declare) }},
	KindKeyPlan:      {"key plan", func() Message { return new(KeyPlan) }},
	KindBarrier:      {"barrier", func() Message { return new(Barrier) }},
	KindLeave:        {"leave", func() Message { return new(Leave) }},
	KindSignal:       {"signal", func() Message { return new(Signal) }},
	KindAwait:        {"await", func() Message { return new(Await) }},
	KindReady:        {"ready", func() Message { return new(Ready) }},
	KindArrive:       {"arrive", func() Message { return new(Arrive) }},
	KindLostExamples: {"counted", func() Message { return new(LostExamples) }},
	KindControl:      {"control", func() Message { return new(Control) }},
	KindReport:       {"report", func() Message { return new(Report) }},
	KindAskLeave:     {"ask leave", func() Message { return new(AskLeave) }},
	KindInitShard:    {"init shard", func() Message { return new(InitShard) }},
	KindAwaitShard:   {"await shard", func() Message { return new(AwaitShard) }},
	KindPush:         {"push", func() Message { return new(Push) }},
	KindPull:         {"pull", func() Message { return new(Pull) }},
	KindValue:        {"value", func() Message { return new(Value) }},
	KindPushRows:     {"push rows", func() Message { return new(PushRows) }},
	KindPullRows:     {"pull rows", func() Message { return new(PullRows) }},
	KindSetOptimizer: {"set optimizer", func() Message { return new(SetOptimizer) }},
	KindSetRate:      {"set rate", func() Message { return new(SetRate) }},
	KindReadState:    {"read state", func() Message { return new(ReadState) }},
	KindState:        {"state", func() Message { return new(State) }},
	KindWriteState:   {"write state", func() Message { return new(WriteState) }},
	KindReadRows:     {"read rows", func() Message { return new(ReadRows) }},
	KindRows:         {"rows", func() Message { return new(Rows) }},
	KindWriteRows:    {"write rows", func() Message { return new(WriteRows) }},
	KindReadUsage:    {"read usage", func() Message { return new(ReadUsage) }},
	KindUsage:        {"usage", func() Message { return new(Usage) }},
	KindReplicate:    {"replicate", func() Message { return new(Replicate) }},
	KindFill:         {"fill", func() Message { return new(Fill) }},
	KindFillPart:     {"fill part", func() Message { return new(FillPart) }},
	KindFilled:       {"filled", func() Message { return new(Filled) }},
	KindReadPlaces:   {"read places", func() Message { return new(ReadPlaces) }},
	KindPlaces:       {"places", func() Message { return new(Places) }},
	KindSignalled:    {"signalled", func() Message { return new(Signalled) }},
	KindBeat:         {"beat", func() Message { return new(Beat) }},
	KindTraceChunk:   {"trace chunk", func() Message { return new(TraceChunk) }},
	KindProfile:      {"profile", func() Message { return new(Profile) }},
	KindReadProfile:  {"read profile", func() Message { return new(ReadProfile) }},
	KindProfilePart:  {"profile part", func() Message { return new(ProfilePart) }},
	KindStopped:      {"stopped", func() Message { return new(Stopped) }},
	KindPushMany:     {"push many", func() Message { return new(PushMany) }},
	KindPushedMany:   {"pushed many", func() Message { return new(PushedMany) }},
	KindClip:         {"clip", func() Message { return new(Clip) }},
	KindClipped:      {"clipped", func() Message { return new(Clipped) }},
}

// New returns an empty message of the kind, or nil if the kind is not known.
func New(kind Kind) Message {
	if int(kind) >= len(kinds) || kinds[kind].make == nil {
		return nil
	}
	return kinds[kind].make()
}

// String returns the kind's name, such as "push rows", or its number.
func (k Kind) String() string {
	if int(k) >= len(kinds) || kinds[k].name == "" {
		return "kind " + strconv.Itoa(int(k))
	}
	return kinds[k].name
}

var codes = [...]string{
	CodeMalformed:       "malformed",
	CodeStaleGeneration: "stale generation",
	CodeUnknownKey:      "unknown key",
	CodeDuplicateInit:   "duplicate init",
	CodeSize:            "wrong size",
	CodeUnknownNode:     "unknown node",
	CodeConflict:        "conflict",
	CodeTooFarAhead:     "too far ahead",
	CodeUnavailable:     "unavailable",
	CodeTimeout:         "timed out",
	CodeUnauthorised:    "unauthorised",
	CodeUnsupported:     "unsupported",
	CodeInternal:        "internal fault",
	CodeBusy:            "busy",
	CodeFull:            "full",
	CodeRemoved:         "removed",
	CodeMoved:           "moved",
	CodeGap:             "gap",
	CodeNoTrace:         "no trace",
	CodePushAlone:       "push alone",
}

// String returns what the code means in a few words, such as "stale generation", or its number.
func (c Code) String() string {
	if int(c) >= len(codes) || codes[c] == "" {
		return "code " + strconv.Itoa(int(c))
	}
	return codes[c]
}
