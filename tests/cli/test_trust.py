# SPDX-License-Identifier: Apache-2.0
"""Who else may change a plugin or a cache: the folders above them too, links on the way, and files in them."""
import os
import shutil
import subprocess
import unittest

from common import BUILD, DEMO, EMULATOR, TENON, Case, has_avx2, main

OTHER = 12345  # nobody's number here
RUN = ("run", DEMO, "-p", "In the beginning", "-n", 6, "--temp", 0)
root = unittest.skipUnless(os.geteuid() == 0, "only root gives files away")


@unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
class Trust(Case):
    def setUp(self):
        super().setUp()
        self.tmp.chmod(0o755)
        self.above = self.tmp / "above"
        self.folder = self.above / "folder"
        self.folder.mkdir(parents=True)

    def plugin(self, folder):
        for kind in "so", "yaml":
            name = f"cpu-avx2-lut.{kind}"
            shutil.copy(next((BUILD / "plugins/cpu-avx2-lut").glob(name)), folder / name)
        self.profile("plugins: [{name: cpu-avx2-lut, probe: inprocess}]\n")

    def state(self, folder, **who):
        """What `tenon plugins` says of the plugin there: "" where it is loaded."""
        env = dict(os.environ, TENON_PLUGIN_PATH=str(folder), TENON_CACHE_DIR="")
        r = subprocess.run([*EMULATOR, TENON, "plugins", "--profile", str(self.tmp / "p.yaml")], capture_output=True,
                           text=True, env=env, **who)
        text = r.stdout + r.stderr
        self.assertIn("cpu-avx2-lut", text)
        return text if "refused" in text else ""

    def test_folders_above_a_plugin(self):
        self.plugin(self.folder)
        self.assertEqual(self.state(self.folder), "")
        for mode, why in ((0o777, "above it, is writable by others (mode 0777, not sticky)"), (0o1777, ""),
                          (0o775, "(mode 0775, not sticky)" if os.geteuid() == 0 else ""), (0o755, "")):
            self.above.chmod(mode)
            with self.subTest(mode=oct(mode)):
                said = self.state(self.folder)
                self.assertIn(why, said)
                self.assertEqual(bool(said), bool(why), said)

    def test_links_to_a_plugin(self):
        self.plugin(self.folder)
        link = self.tmp / "link"
        link.symlink_to(self.above)
        self.assertEqual(self.state(link / "folder"), "")
        self.above.chmod(0o777)
        self.assertIn(f"'{self.above}', above it, is writable", self.state(link / "folder"))
        loop = self.tmp / "loop"
        loop.symlink_to(loop)
        self.assertNotIn("AVX", self.tenon("plugins", env={"TENON_PLUGIN_PATH": str(loop)}).stdout)

    @root
    def test_owners(self):
        self.plugin(self.folder)
        os.chown(self.above, OTHER, OTHER)
        self.assertIn(f"above it, belongs to user {OTHER}", self.state(self.folder))
        os.chown(self.above, 0, 0)
        link = self.tmp / "link"
        link.symlink_to(self.above)
        os.chown(link, OTHER, OTHER, follow_symlinks=False)
        self.assertIn(f"the link '{link}', on the way to it, belongs to user {OTHER}", self.state(link / "folder"))

    @root
    def test_a_group_of_the_users_own(self):
        self.plugin(self.folder)
        for p in [self.tmp, self.above, self.folder, *self.folder.iterdir()]:
            os.chown(p, OTHER, OTHER)
            p.chmod(0o775)
        me = {"user": OTHER, "group": OTHER, "extra_groups": []}
        self.assertEqual(self.state(self.folder, **me), "")
        os.chown(self.above, OTHER, 100)
        self.assertIn("above it, is writable by others", self.state(self.folder, **me))

    def test_only_the_narrowest_walls(self):
        """isolation: strict refuses a plugin that runs with confine: driver only."""
        self.plugin(self.folder)
        manifest = self.folder / "cpu-avx2-lut.yaml"
        text = manifest.read_text()
        self.assertIn("confine: strict", text)
        self.profile("isolation: strict\nplugins: [cpu-avx2-lut]\n")
        self.assertEqual(self.state(self.folder), "")
        for confine, isolation, refused in (("driver", "strict", True), ("driver", "process", False)):
            manifest.write_text(text.replace("confine: strict", f"confine: {confine}"))
            self.profile(f"plugins: [{{name: cpu-avx2-lut, isolation: {isolation}}}]\n")
            said = self.state(self.folder)
            self.assertEqual("refused: the profile has isolation: strict" in said, refused, said)

    def test_caches_that_others_may_write(self):
        want = self.ok(*RUN).stdout
        for folder, mode in (self.folder, 0o777), (self.folder, 0o1777), (self.above, 0o777):
            self.above.chmod(0o755)
            self.folder.chmod(0o755)
            folder.chmod(mode)
            with self.subTest(folder=folder.name, mode=oct(mode)):
                r = self.ok(*RUN, "--cache-dir", self.folder)
                self.assertIn(f"the cache folder '{self.folder}' is not used: refused", r.stderr)
                self.assertEqual((r.stdout, list(self.folder.iterdir())), (want, []))
                self.assertIn("(memory: not kept)", self.ok("pack", DEMO, "-o", self.folder).stdout)

    def test_packed_files_that_others_may_write(self):
        want = self.ok(*RUN).stdout
        [packed] = self.cache.glob("*.tnpack")
        for change in (lambda: packed.chmod(0o666), lambda: os.geteuid() or os.chown(packed, OTHER, OTHER)):
            before = packed.stat().st_ino
            change()
            if packed.stat().st_mode & 0o002 or packed.stat().st_uid == OTHER:
                r = self.ok(*RUN)
                self.assertIn("are not used and packed again: refused", r.stderr)
                self.assertEqual(r.stdout, want)
                self.assertNotEqual(packed.stat().st_ino, before)
        self.assertNotIn("not used", self.ok(*RUN).stderr)

    def test_entries_of_plugins_that_others_may_write(self):
        """What a probe found is kept: who may write that could call a broken plugin good."""
        self.plugin(self.folder)
        p = self.profile("plugins: [{name: cpu-avx2-lut, probe: isolated}]\n")
        env = {"TENON_PLUGIN_PATH": str(self.folder)}
        self.ok("plugins", "--profile", p, env=env)
        kept = list((self.cache / "plugins").glob("*/*.blob"))
        self.assertTrue(kept)
        self.assertNotIn("is not used", self.ok("plugins", "--profile", p, env=env).stderr)
        for f in kept:
            f.chmod(0o666)
        self.assertIn("a cache entry is not used: refused: the file is writable",
                      self.ok("plugins", "--profile", p, env=env).stderr)


if __name__ == "__main__":
    main()
