package scratch

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// ours reports whether the folder is this user's. Who else may read it follows from the folder for
// temporary files, which Windows gives each user. What an elevated process makes belongs to the
// administrators, and is left.
func ours(path string, _ fs.FileInfo) bool {
	security, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return false
	}
	owner, _, err := security.Owner()
	if err != nil {
		return false
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	return err == nil && owner.Equals(user.User.Sid)
}

// removeEmpty removes the folder if nothing is in it.
func removeEmpty(path string) { _ = os.Remove(path) }
