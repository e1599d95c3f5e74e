package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

var versions = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

// file is one file of a package.
type file struct {
	// source is the path of its content, to its path once installed.
	source, to string
	mode       os.FileMode
	// config means that an operator's changes to it survive an upgrade.
	config bool
}

// afterInstall starts nothing: a node that begins with the wrong settings keeps them forever. An upgrade restarts a
// running node. If the package goes into another root, the machine's own systemd is not touched.
const afterInstall = `#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart rota.service
fi
# dpkg tells the version before this one, rpm how many there are now.
case "$1:$2" in
configure:?* | [2-9]:*) exit 0 ;;
esac
echo "rota: set /etc/rota/server.yaml, then: systemctl enable --now rota.service"
`

// beforeRemove stops the node if the package is removed; at an upgrade afterInstall of the new one restarts it.
const beforeRemove = `#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ] && { [ "$1" = remove ] || [ "$1" = 0 ]; }; then
	systemctl disable --now rota.service
fi
`

// afterRemove lists the files that stay: a package must never delete a node's data.
const afterRemove = `#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ] && [ -d /var/lib/rota ]; then
	echo "rota: the node's data is still in /var/lib/rota: remove it once the cluster has removed the node"
fi
`

// Alpine has OpenRC: accounts are not created and removed with the service, so the package creates one.
const (
	apkBeforeInstall = `#!/bin/sh
set -e
getent group rota >/dev/null || addgroup -S rota
getent passwd rota >/dev/null || adduser -S -D -H -h /var/lib/rota -s /sbin/nologin -G rota -g rota rota
`
	apkAfterInstall = `#!/bin/sh
echo "rota: set /etc/rota/server.yaml, then: rc-update add rota && rc-service rota start"
`
	apkAfterUpgrade = `#!/bin/sh
if [ -d /run/openrc ]; then
	rc-service --ifstarted rota restart
fi
`
	apkBeforeRemove = `#!/bin/sh
if [ -d /run/openrc ]; then
	rc-service --ifstarted rota stop
fi
`
)

// script is run by a package manager; the recipe sets where it is stored.
type script struct {
	name, text string
	to         *string
}

// scripts returns the scripts of a format.
func scripts(format string, info *nfpm.Info) []script {
	if format == "apk" {
		return []script{{"preinstall", apkBeforeInstall, &info.Scripts.PreInstall},
			{"postinstall", apkAfterInstall, &info.Scripts.PostInstall},
			{"preupgrade", apkBeforeInstall, &info.APK.Scripts.PreUpgrade},
			{"postupgrade", apkAfterUpgrade, &info.APK.Scripts.PostUpgrade},
			{"preremove", apkBeforeRemove, &info.Scripts.PreRemove}}
	}
	return []script{{"postinstall", afterInstall, &info.Scripts.PostInstall},
		{"preremove", beforeRemove, &info.Scripts.PreRemove}, {"postremove", afterRemove, &info.Scripts.PostRemove}}
}

// ofFormat returns the files of a package of a format: for systems with OpenRC a script replaces the unit.
func (r *release) ofFormat(format string, all []file) []file {
	if format != "apk" {
		return all
	}
	all = slices.DeleteFunc(slices.Clone(all), func(f file) bool {
		return strings.HasSuffix(f.to, "/rota.service") || strings.HasSuffix(f.to, "/keys.conf")
	})
	return append(all, file{source: filepath.Join(r.source, "deploy", "packages", "rota.initd"), to: "/etc/init.d/rota",
		mode: 0o755})
}

// files lists the content of every package; generated files go into work.
func (r *release) files(binary, work string) ([]file, error) {
	unit, keys, err := units(filepath.Join(r.source, "docs", "operations", "rota.service"))
	if err != nil {
		return nil, err
	}
	all := []file{
		{source: binary, to: "/usr/bin/rota", mode: 0o755},
		{source: filepath.Join(r.source, "deploy", "packages", "server.yaml"), to: "/etc/rota/server.yaml", mode: 0o644,
			config: true}, {source: filepath.Join(r.source, "LICENSE"), to: "/usr/share/doc/rota/LICENSE", mode: 0o644},
		{source: filepath.Join(r.source, "CHANGELOG.md"), to: "/usr/share/doc/rota/CHANGELOG.md", mode: 0o644},
	}
	for _, made := range []struct{ name, to, text string }{
		{"rota.service", "/usr/lib/systemd/system/rota.service", unit},
		{"keys.conf", "/usr/share/doc/rota/keys.conf", keys},
	} {
		source := filepath.Join(work, made.name)
		if err := r.write(source, made.text); err != nil {
			return nil, err
		}
		all = append(all, file{source: source, to: made.to, mode: 0o644})
	}
	return all, nil
}

// write writes a file of a package with the commit's date: an apk records the dates of its scripts.
func (r *release) write(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		return err
	}
	return os.Chtimes(path, r.date, r.date)
}

// units derives from the documented unit the one that packages install, which needs no keys, and a drop-in that has
// them.
func units(path string) (unit, keys string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	const from, to = "/usr/local/bin/rota server", "/usr/bin/rota server"
	keys = "# What systemd hands to a node with TLS: copy this to /etc/systemd/system/rota.service.d/keys.conf.\n[Service]\n"
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "ExecStart="):
			whole := strings.Replace(line, from, to, 1)
			bare, _, found := strings.Cut(whole, " --tls-key ")
			if whole == line || !found {
				return "", "", fmt.Errorf("%s: %q has changed: want %q and keys", path,
					strings.TrimSpace(line), from)
			}
			unit += bare + "\n"
			keys += "ExecStart=\n" + whole
		case strings.HasPrefix(line, "LoadCredential="):
			keys += line
		default:
			unit += line
		}
	}
	return unit, keys, nil
}

// pack creates one package.
func (r *release) pack(format, arch string, all []file, work, dir string) error {
	info := &nfpm.Info{Name: "rota", Arch: arch, Platform: "linux", Version: r.version, Section: "admin",
		Priority:   "optional",
		Maintainer: "The rota authors <rota@example.org>", Homepage: "https://github.com/rotasched/rota",
		License: "Apache-2.0", MTime: r.date,
		Description: "Replicated job scheduler\nQueues of work for many tenants on many machines: three or five nodes agree through Raft on every\nsubmission, lease and completion. No database, no broker."}
	info.Deb.Fields = map[string]string{"Bugs": "https://github.com/rotasched/rota/issues"}
	info.RPM.BuildHost = "rota"
	for _, f := range r.ofFormat(format, all) {
		c := &files.Content{Source: f.source, Destination: f.to,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.date}}
		if f.config {
			c.Type = files.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, c)
	}
	for _, s := range scripts(format, info) {
		*s.to = filepath.Join(work, format+"-"+s.name)
		if err := r.write(*s.to, s.text); err != nil {
			return err
		}
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := packager.Package(info, f); err != nil {
		return err
	}
	return f.Close()
}

// tarball creates an archive of the same files under one folder, for machines without packages.
func (r *release) tarball(arch string, all []file, dir string) error {
	name := fmt.Sprintf("rota-%s-linux-%s", r.version, arch)
	f, err := os.Create(filepath.Join(dir, name+".tar.gz"))
	if err != nil {
		return err
	}
	defer f.Close()
	z := gzip.NewWriter(f)
	t := tar.NewWriter(z)
	for _, one := range all {
		if err := addTo(t, one, name+"/"+filepath.Base(one.to), r); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

func addTo(t *tar.Writer, one file, name string, r *release) error {
	f, err := os.Open(one.source)
	if err != nil {
		return err
	}
	defer f.Close()
	s, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: int64(one.mode), Size: s.Size(), ModTime: r.date,
		Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}
