package cudnn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A Mode is a way in which the heuristics list engines.
type Mode string

// The modes, in the order in which they are asked, and the older interface, which has none.
const (
	ModeA        Mode = "A"        // by a fast model of the time
	ModeB        Mode = "B"        // by a better and slower one
	ModeFallback Mode = "FALLBACK" // what works, for the rest
	ModeLegacy   Mode = "legacy"

	// ModeRemembered did not ask: the engine was chosen before.
	ModeRemembered Mode = "remembered"
)

// heurModes are the values of cudnnBackendHeurMode_t.
var heurModes = []struct {
	mode  Mode
	value int32
}{{ModeA, 3}, {ModeB, heurModeB}, {ModeFallback, 2}}

const heurModeB = 1

// modeB is held while mode B is asked: the library's own frontend does not let two threads do so at
// once, whatever their handles.
var modeB sync.Mutex

// A Note is what the library says of an engine's numbers: a cudnnBackendNumericalNote_t.
type Note int32

// The notes that decide whether an engine is used.
const (
	NoteTensorCore        Note = 0
	NoteDownConvertInputs Note = 1
	NoteReducedPrecision  Note = 2 // sums in less than float32
	NoteFFT               Note = 3
	NoteNonDeterministic  Note = 4
	NoteWinograd          Note = 5
	NoteWinograd4x4       Note = 6
	NoteWinograd6x6       Note = 7
	NoteWinograd13x13     Note = 8

	numNotes = 10
)

var noteNames = map[Note]string{NoteTensorCore: "tensor core", NoteDownConvertInputs: "down-converts inputs",
	NoteReducedPrecision: "reduced precision of sums", NoteFFT: "FFT", NoteNonDeterministic: "nondeterministic", NoteWinograd: "Winograd",
	NoteWinograd4x4: "Winograd 4x4", NoteWinograd6x6: "Winograd 6x6", NoteWinograd13x13: "Winograd 13x13", 9: "strict NaN propagation"}

func (n Note) String() string {
	if name, ok := noteNames[n]; ok {
		return name
	}
	return fmt.Sprintf("Note(%d)", int32(n))
}

// behaviorRuntimeCompiled is what the library says of an engine that it compiles when a plan is
// built: a cudnnBackendBehaviorNote_t.
const behaviorRuntimeCompiled = 0

// numBehaviors is more than there are notes of behaviour.
const numBehaviors = 16

// maxKnobs is the most choices that are read of a configuration: more than there are kinds of knobs
// (cudnnBackendKnobType_t has 44).
const maxKnobs = 64

// A wish is what an engine must keep to.
type wish struct {
	deterministic bool
	float32       bool // products of float32 numbers, in full
}

// refuses gives the reason why an engine with these notes is not wanted, or "".
func (w wish) refuses(notes []Note) string {
	for _, n := range notes {
		switch n {
		case NoteNonDeterministic:
			if w.deterministic {
				return "nondeterministic"
			}
		case NoteReducedPrecision:
			return n.String()
		case NoteDownConvertInputs, NoteTensorCore:
			if w.float32 {
				return "float32 at less than its precision"
			}
		case NoteFFT, NoteWinograd6x6, NoteWinograd13x13:
			// Their intermediate values lose digits to cancellation: more than 16-bit
			// storage has to give away, and more than the 1e-5 that float32 is chosen
			// for.
			return n.String()
		}
	}
	return ""
}

// An engine is a configuration that the heuristics propose, not compiled yet.
type engine struct {
	config descriptor

	// name is the engine's number and its knobs, such as "eng4 k2=17 k24=3".
	name string

	mode  Mode
	notes []Note

	// compiled says that the library compiles it when a plan of it is built, which may take a
	// second. Others are there already.
	compiled bool
}

// engines asks the heuristics for all engines of a graph, each once, in order. Modes that refuse
// the graph are passed over. The caller owns the configurations.
func (h *Handle) engines(g *graph) (found []engine, err error) {
	defer func() {
		if err != nil {
			for _, e := range found {
				h.destroy(e.config)
			}
			found = nil
		}
	}()
	seen := make(map[string]bool)
	var unknown []error
	for _, m := range heurModes {
		configs, err := h.configs(g, m.value)
		if err != nil && Refused(err) {
			unknown = append(unknown, fmt.Errorf("mode %s: %w", m.mode, err))
			continue
		}
		if err != nil {
			return found, err
		}
		for i, config := range configs {
			e := engine{config: config, mode: m.mode}
			if err = h.describeEngine(&e, g.what); err != nil && !Refused(err) {
				for _, rest := range configs[i:] {
					h.destroy(rest)
				}
				return found, err
			}
			if err != nil {
				unknown = append(unknown, err)
			}
			if seen[e.name] || err != nil {
				if err = h.destroy(config); err != nil {
					return found, err
				}
				continue
			}
			seen[e.name] = true
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("cudnn: %s: the heuristics know no engine: %w", g.what, refused(unknown))
	}
	return found, nil
}

// configs asks one mode of the heuristics.
func (h *Handle) configs(g *graph, mode int32) ([]descriptor, error) {
	d, err := h.create(heuristicsDescriptor, g.what)
	if err != nil {
		return nil, err
	}
	configs, err := func() ([]descriptor, error) {
		if err := h.setDescriptors(d, attrHeurOperationGraph, g.what, g.root); err != nil {
			return nil, err
		}
		if err := h.setEnum(d, attrHeurMode, typeHeurMode, g.what, mode); err != nil {
			return nil, err
		}
		if mode == heurModeB {
			modeB.Lock()
			defer modeB.Unlock()
		}
		if err := h.finalize(d, heuristicsDescriptor, g.what); err != nil {
			return nil, err
		}
		n, err := h.count(d, attrHeurResults, typeDescriptor, g.what)
		if err != nil {
			return nil, err
		}
		return h.getDescriptors(d, attrHeurResults, configDescriptor, min(n, maxWords-1), g.what)
	}()
	return configs, errors.Join(err, h.destroy(d))
}

// describeEngine reads an engine's number, knobs and notes.
func (h *Handle) describeEngine(e *engine, what string) error {
	engines, err := h.getDescriptors(e.config, attrConfigEngine, engineDescriptor, 1, what)
	if err != nil {
		return err
	}
	if len(engines) != 1 {
		return fmt.Errorf("cudnn: get %v of %s: got %d engines, want 1: %w", attrConfigEngine, what, len(engines), ErrNotSupported)
	}
	defer h.destroy(engines[0])
	index, err := h.getInt(engines[0], attrEngineGlobalIndex, what)
	if err != nil {
		return err
	}
	if err := h.notes(e, engines[0], what); err != nil {
		return err
	}
	knobs, err := h.knobs(e.config, what)
	if err != nil {
		return err
	}
	e.name = strings.Join(append([]string{fmt.Sprintf("eng%d", index)}, knobs...), " ")
	return nil
}

// notes reads what the library says of an engine's numbers and of how it comes to be.
func (h *Handle) notes(e *engine, d descriptor, what string) error {
	notes, err := h.getEnums(d, attrEngineNumericalNote, typeNumericalNote, numNotes, what)
	if err != nil {
		return err
	}
	for _, n := range notes {
		e.notes = append(e.notes, Note(n))
	}
	behavior, err := h.getEnums(d, attrEngineBehaviorNote, typeBehaviorNote, numBehaviors, what)
	if err != nil && Refused(err) {
		// An engine of which this is not known is no worse.
		return nil
	}
	e.compiled = slices.Contains(behavior, behaviorRuntimeCompiled)
	return err
}

// knobs lists the choices of a configuration, "k2=17", sorted by the knob's number.
func (h *Handle) knobs(config descriptor, what string) ([]string, error) {
	// Descriptors to be filled are made before, so a library that does not say how many there
	// are costs more of them.
	n, err := h.count(config, attrConfigKnobChoices, typeDescriptor, what)
	if err != nil || n <= 0 || n > maxKnobs {
		n = maxKnobs
	}
	choices, err := h.getDescriptors(config, attrConfigKnobChoices, knobChoiceDescriptor, n, what)
	if err != nil {
		return nil, err
	}
	type knob struct{ knob, value int64 }
	var knobs []knob
	var errs []error
	for _, c := range choices {
		types, err := h.getEnums(c, attrKnobType, typeKnobType, 1, what)
		if err == nil && len(types) == 1 {
			var value int64
			if value, err = h.getInt(c, attrKnobValue, what); err == nil {
				knobs = append(knobs, knob{int64(types[0]), value})
			}
		}
		errs = append(errs, err, h.destroy(c))
	}
	slices.SortFunc(knobs, func(a, b knob) int { return int(a.knob - b.knob) })
	names := make([]string, len(knobs))
	for i, k := range knobs {
		names[i] = fmt.Sprintf("k%d=%d", k.knob, k.value)
	}
	return names, errors.Join(errs...)
}

// sinceWorkspace is the first version that says how much workspace a configuration wants before it
// is compiled.
const sinceWorkspace Version = 90200

// compile makes the execution plan of a configuration. Not supported is an ordinary answer.
func (h *Handle) compile(e engine, what string) (plan descriptor, workspace int64, err error) {
	what = e.name + " for " + what
	if h.version >= sinceWorkspace {
		if workspace, err := h.getInt(e.config, attrConfigWorkspace, what); err == nil && workspace > h.MaxWorkspace {
			return 0, 0, h.tooMuch(what, workspace)
		}
	}
	plan, err = h.create(planDescriptor, what)
	if err != nil {
		return 0, 0, err
	}
	err = h.setInts(plan, attrPlanHandle, typeHandle, what, int64(h.handle))
	if err == nil {
		err = h.setDescriptors(plan, attrPlanEngineConfig, what, e.config)
	}
	if err == nil {
		err = h.finalize(plan, planDescriptor, what)
	}
	if err == nil {
		workspace, err = h.getInt(plan, attrPlanWorkspaceSize, what)
	}
	if err != nil {
		return 0, 0, errors.Join(err, h.destroy(plan))
	}
	return plan, workspace, nil
}

// tooMuch says that a plan wants more workspace than is allowed.
func (h *Handle) tooMuch(what string, workspace int64) error {
	return fmt.Errorf("cudnn: build %s: wants %d bytes of workspace, and at most %d are allowed: %w", what, workspace, h.MaxWorkspace, ErrNotSupported)
}
