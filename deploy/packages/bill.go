package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// bill writes the parts of a binary according to the binary itself: its modules with versions and checksums.
func (r *release) bill(arch, binary, dir string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.date.Format(time.RFC3339),
		Component: &cyclonedx.Component{Type: cyclonedx.ComponentTypeApplication,
			BOMRef: "rota", Name: "rota", Version: r.version, PackageURL: "pkg:golang/github.com/rotasched/rota@" +
				r.version}}
	components := []cyclonedx.Component{{Type: cyclonedx.ComponentTypeLibrary, BOMRef: "std", Name: "std",
		Version:    info.GoVersion,
		PackageURL: "pkg:golang/std@" + info.GoVersion}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			return fmt.Errorf("module %s is replaced: `go install` would build something else", m.Path)
		}
		ref := "pkg:golang/" + m.Path + "@" + m.Version
		components = append(components, cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: ref,
			Name: m.Path, Version: m.Version, PackageURL: ref,
			Properties: &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}})
	}
	bom.Components = &components
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("rota-%s-linux-%s.cdx.json", r.version, arch)))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := cyclonedx.NewBOMEncoder(f, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return f.Close()
}
