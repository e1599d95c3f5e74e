package fault

import "os"

// Play plays a role that a child of this program has, and reports whether role is one.
func Play(role string, args []string) (played bool, err error) {
	switch role {
	case roleHolder:
		hold()
	case roleEnter:
		err = enterNetwork(args[0], args[1:], os.Environ())
	case roleProbe:
		err = probe()
	case roleRemover:
		err = removeAll(args[0])
	case roleDisk:
		err = serveDisk(args[0], args[1])
	default:
		return false, nil
	}
	return true, err
}
