package tidy

import "testing"

func TestPlantsPlants(t *testing.T) {
	t.Parallel()
	const bug = "package fsm\nfunc (plants) x() bool { return true }\n"
	walk(t, checkPlants, []violation{
		{"behind_its_tag", one("fsm/plant_x.go", "//go:build plant_x\n\n"+bug), nil},
		{"off_without_it", one("fsm/plants.go",
			"package fsm\nfunc (sound) x() (bool, int, t) { return false, 0, t{} }\nfunc (sound) y() {}\n"), nil},
		{"without_a_tag", one("fsm/plant_x.go", bug), []string{"a plant is built with one tag",
			"a plant in a normal build"}},
		{"of_another_tag", one("fsm/plant_x.go", "//go:build plant_y\n\n"+bug),
			[]string{"a plant is built with one tag", "a plant in a normal build"}},
		{"without_any", one("fsm/plant_x.go", "//go:build !plant_x\n\npackage fsm\n"),
			[]string{"a plant is built with one tag"}},
		{"elsewhere", one("fsm/a.go", bug), []string{"a plant in a normal build"}},
		{"a_tag_elsewhere", one("fsm/a.go", "//go:build linux && plant_x\n\npackage fsm\n"),
			[]string{"built by the tag of a plant"}},
		{"on_without_it", one("fsm/plants.go", "package fsm\nfunc (sound) x() bool { return true }\n"),
			[]string{"does something"}},
		{"at_work_without_it", one("fsm/plants.go", "package fsm\nfunc (sound) x() { f() }\n"),
			[]string{"does something"}}, {"a_test_of_that_name", one("fsm/plant_test.go", "package fsm\n"), nil},
	})
	walk(t, checkPure, []violation{
		{"a_plant_is_free", one("fsm/plant_x.go", "//go:build plant_x\n\npackage fsm\nimport _ \"os\"\n"), nil},
		{"its_name_alone_frees_nothing", one("fsm/plant_x.go", "package fsm\nimport _ \"os\"\n"),
			[]string{"os is out of bounds"}},
	})
}
