package fault

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// diskNode is a file or directory of a mounted disk. It implements only the calls that a data directory needs:
// unimplemented calls, such as copy_file_range or the kernel's pass-through, cannot bypass the ledger. The library's
// own pass-through node was not embedded for that reason.
type diskNode struct {
	fs.Inode
	at *diskServer
}

var (
	_ fs.NodeLookuper       = (*diskNode)(nil)
	_ fs.NodeGetattrer      = (*diskNode)(nil)
	_ fs.NodeSetattrer      = (*diskNode)(nil)
	_ fs.NodeOpener         = (*diskNode)(nil)
	_ fs.NodeCreater        = (*diskNode)(nil)
	_ fs.NodeMkdirer        = (*diskNode)(nil)
	_ fs.NodeMknoder        = (*diskNode)(nil)
	_ fs.NodeUnlinker       = (*diskNode)(nil)
	_ fs.NodeRmdirer        = (*diskNode)(nil)
	_ fs.NodeRenamer        = (*diskNode)(nil)
	_ fs.NodeLinker         = (*diskNode)(nil)
	_ fs.NodeOpendirHandler = (*diskNode)(nil)
	_ fs.NodeStatfser       = (*diskNode)(nil)
)

func (n *diskNode) path(name string) string {
	return filepath.Join(n.at.ledger.data, n.Path(n.Root()), name)
}

func (n *diskNode) ino() uint64 { return n.StableAttr().Ino }

// child makes the node of an existing name.
func (n *diskNode) child(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	var st syscall.Stat_t
	if err := syscall.Lstat(n.path(name), &st); err != nil {
		return nil, fs.ToErrno(err)
	}
	out.FromStat(&st)
	return n.NewInode(ctx, &diskNode{at: n.at}, fs.StableAttr{Mode: st.Mode, Ino: st.Ino}), 0
}

func (n *diskNode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.child(ctx, name, out)
}

func (n *diskNode) Getattr(_ context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	var st syscall.Stat_t
	var err error
	if open, ok := f.(*diskFile); ok {
		err = syscall.Fstat(int(open.f.Fd()), &st)
	} else {
		err = syscall.Lstat(n.path(""), &st)
	}
	if err != nil {
		return fs.ToErrno(err)
	}
	out.FromStat(&st)
	return 0
}

// Setattr changes size and mode; it ignores times and owners.
func (n *diskNode) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if mode, ok := in.GetMode(); ok {
		if err := syscall.Chmod(n.path(""), mode); err != nil {
			return fs.ToErrno(err)
		}
	}
	if size, ok := in.GetSize(); ok {
		if err := n.truncate(f, int64(size)); err != nil {
			return errno(err)
		}
	}
	return n.Getattr(ctx, f, out)
}

func (n *diskNode) truncate(f fs.FileHandle, size int64) error {
	if n.at.faults.writesFail() {
		return syscall.EIO
	}
	if open, ok := f.(*diskFile); ok {
		return n.at.ledger.truncate(open.f, n.ino(), size)
	}
	file, err := os.OpenFile(n.path(""), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(n.at.ledger.truncate(file, n.ino(), size), file.Close())
}

// readable turns flags into those of a file that the ledger can also read; the write position comes with each write.
func readable(flags uint32) int {
	plain := int(flags) &^ (syscall.O_APPEND | syscall.O_TRUNC | syscall.O_ACCMODE)
	if flags&syscall.O_ACCMODE == syscall.O_RDONLY {
		return plain | syscall.O_RDONLY
	}
	return plain | syscall.O_RDWR
}

func (n *diskNode) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	f, err := os.OpenFile(n.path(""), readable(flags&^fuse.FMODE_EXEC), 0)
	if err != nil {
		return nil, 0, errno(err)
	}
	open := &diskFile{f: f, node: n}
	if flags&syscall.O_TRUNC != 0 {
		if err := n.truncate(open, 0); err != nil {
			return nil, 0, errno(errors.Join(err, f.Close()))
		}
	}
	return open, 0, 0
}

func (n *diskNode) Create(ctx context.Context, name string, flags, mode uint32,
	out *fuse.EntryOut) (*fs.Inode, fs.FileHandle,
	uint32, syscall.Errno) {
	if err := n.at.faults.grow(); err != nil {
		return nil, nil, 0, errno(err)
	}
	f, err := os.OpenFile(n.path(name), readable(flags)|os.O_CREATE|os.O_EXCL, os.FileMode(mode))
	if err != nil {
		return nil, nil, 0, errno(err)
	}
	if err := n.at.ledger.made(n.ino(), name, n.path(name), f); err != nil {
		return nil, nil, 0, errno(errors.Join(err, f.Close()))
	}
	child, code := n.child(ctx, name, out)
	if code != 0 {
		_ = f.Close()
		return nil, nil, 0, code
	}
	return child, &diskFile{f: f, node: child.Operations().(*diskNode)}, 0, 0
}

func (n *diskNode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	err := n.at.faults.grow()
	if err == nil {
		err = os.Mkdir(n.path(name), os.FileMode(mode))
	}
	if err == nil {
		err = n.at.ledger.made(n.ino(), name, n.path(name), nil)
	}
	if err != nil {
		return nil, errno(err)
	}
	return n.child(ctx, name, out)
}

// Mknod makes a node's own socket; nothing else is made this way.
func (n *diskNode) Mknod(ctx context.Context, name string, mode, _ uint32,
	out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return nil, syscall.EPERM
	}
	err := n.at.faults.grow()
	if err == nil {
		err = syscall.Mknod(n.path(name), mode, 0)
	}
	if err == nil {
		err = n.at.ledger.made(n.ino(), name, n.path(name), nil)
	}
	if err != nil {
		return nil, errno(err)
	}
	return n.child(ctx, name, out)
}

func (n *diskNode) Link(ctx context.Context, target fs.InodeEmbedder, name string,
	out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	from, ok := target.(*diskNode)
	if !ok {
		return nil, syscall.EXDEV
	}
	err := n.at.faults.grow()
	if err == nil {
		err = os.Link(from.path(""), n.path(name))
	}
	if err == nil {
		err = n.at.ledger.made(n.ino(), name, n.path(name), nil)
	}
	if err != nil {
		return nil, errno(err)
	}
	return n.child(ctx, name, out)
}

func (n *diskNode) Unlink(_ context.Context, name string) syscall.Errno {
	if n.at.faults.writesFail() {
		return syscall.EIO
	}
	return errno(n.at.ledger.remove(n.ino(), name, n.path(name)))
}

func (n *diskNode) Rmdir(ctx context.Context, name string) syscall.Errno {
	inside, err := os.ReadDir(n.path(name))
	if err != nil {
		return errno(err)
	}
	if len(inside) > 0 {
		return syscall.ENOTEMPTY
	}
	return n.Unlink(ctx, name)
}

func (n *diskNode) Rename(_ context.Context, name string, parent fs.InodeEmbedder, toName string,
	flags uint32) syscall.Errno {
	to, ok := parent.(*diskNode)
	if !ok || flags != 0 {
		return syscall.EINVAL
	}
	if n.at.faults.writesFail() {
		return syscall.EIO
	}
	return errno(n.at.ledger.move(n.ino(), name, n.path(name), to.ino(), toName, to.path(toName)))
}

func (n *diskNode) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	free := n.at.faults.free()
	out.Bsize, out.Frsize, out.NameLen = diskBlock, diskBlock, 255
	out.Blocks, out.Bfree, out.Bavail = diskSize/diskBlock, free/diskBlock, free/diskBlock
	out.Files, out.Ffree = 1<<20, 1<<19
	return 0
}

func (n *diskNode) OpendirHandle(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	listed, code := fs.NewLoopbackDirStream(n.path(""))
	if code != 0 {
		return nil, 0, code
	}
	return &diskDir{listed, n}, 0, 0
}

// diskDir is an open directory.
type diskDir struct {
	fs.DirStream
	node *diskNode
}

func (d *diskDir) Readdirent(context.Context) (*fuse.DirEntry, syscall.Errno) {
	if !d.HasNext() {
		return nil, 0
	}
	entry, code := d.Next()
	return &entry, code
}

func (d *diskDir) Releasedir(context.Context, uint32) { d.Close() }

// Seekdir is used by callers that read a directory twice.
func (d *diskDir) Seekdir(ctx context.Context, at uint64) syscall.Errno {
	return d.DirStream.(fs.FileSeekdirer).Seekdir(ctx, at)
}

func (d *diskDir) Fsyncdir(context.Context, uint32) syscall.Errno {
	if err := d.node.at.faults.sync(); err != nil {
		return errno(err)
	}
	d.node.at.ledger.dirSynced(d.node.ino())
	return 0
}

// diskFile is an open file.
type diskFile struct {
	f    *os.File
	node *diskNode
}

func (o *diskFile) Read(_ context.Context, into []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	n, err := syscall.Pread(int(o.f.Fd()), into, at)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	return fuse.ReadResultData(into[:n]), 0
}

func (o *diskFile) Write(_ context.Context, data []byte, at int64) (uint32, syscall.Errno) {
	if o.node.at.faults.writesFail() {
		return 0, syscall.EIO
	}
	if o.node.at.faults.full() && !o.holds(at, int64(len(data))) {
		return 0, syscall.ENOSPC
	}
	n, err := o.node.at.ledger.write(o.f, o.node.ino(), data, at)
	return uint32(n), errno(err)
}

// holds reports whether all of a stretch already has its place on the disk: it lies before the end of the file, and not
// in a hole.
func (o *diskFile) holds(at, length int64) bool {
	info, err := o.f.Stat()
	if err != nil || at+length > info.Size() {
		return false
	}
	fd := int(o.f.Fd())
	if begin, err := unix.Seek(fd, at, unix.SEEK_DATA); err != nil || begin != at {
		return false
	}
	end, err := unix.Seek(fd, at, unix.SEEK_HOLE)
	return err == nil && end >= at+length
}

func (o *diskFile) Fsync(context.Context, uint32) syscall.Errno {
	if err := o.node.at.faults.sync(); err != nil {
		o.node.at.ledger.notSynced(o.node.ino())
		return errno(err)
	}
	return errno(o.node.at.ledger.synced(o.f, o.node.ino()))
}

func (o *diskFile) Release(context.Context) syscall.Errno { return errno(o.f.Close()) }

// errno finds the system's error in any other.
func errno(err error) syscall.Errno {
	var code syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return code
	}
	return syscall.EIO
}
