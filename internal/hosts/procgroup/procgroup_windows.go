package procgroup

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Own makes a command that has not started begin in a process group of its own.
func Own(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// system is the job object of the group, in Windows' sense of the word: a process that a member
// starts is a member.
type system struct {
	// mu guards job.
	mu sync.Mutex

	// job is 0 when it is closed.
	job windows.Handle
}

func (s *system) prepare() (err error) {
	if s.job, err = windows.CreateJobObject(nil, nil); err != nil {
		return os.NewSyscallError("CreateJobObject", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		// Should this process die, the system closes the object, and with it ends the
		// members.
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(s.job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		_ = windows.CloseHandle(s.job)
		return os.NewSyscallError("SetInformationJobObject", err)
	}
	return nil
}

// adopt makes the command a member. What it started before that, in its first moment, is none.
func (s *system) adopt(p *os.Process) error {
	var err error
	if handleErr := p.WithHandle(func(handle uintptr) {
		err = os.NewSyscallError("AssignProcessToJobObject", windows.AssignProcessToJobObject(s.job, windows.Handle(handle)))
	}); handleErr != nil {
		return handleErr
	}
	return err
}

// Kill kills the command and its descendants. It does nothing after Close.
func (g *Group) Kill() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.job == 0 {
		return os.ErrProcessDone
	}
	return os.NewSyscallError("TerminateJobObject", windows.TerminateJobObject(g.job, 1))
}

// Close frees what belongs to the group, and ends descendants that still run.
func (g *Group) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = windows.CloseHandle(g.job)
	g.job = 0
}
