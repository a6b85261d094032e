/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of system calls: what `strict` allows, what `driver` refuses (filter.c; docs/security.md says what that is
 * for). Some are not in every machine's table, or newer than some C libraries' headers.
 */
#ifndef TENON_PLUGIN_HELPER_SYSCALLS_H
#define TENON_PLUGIN_HELPER_SYSCALLS_H

#include <stdint.h>
#include <sys/syscall.h>

/* What computing needs: memory, threads, time, files that are open or that Landlock lets be opened, sockets that are
 * open. No new processes, no new sockets, nobody else's anything. */
static const uint32_t helper_strict[] = {
#ifdef SYS_read
    SYS_read,
#endif
#ifdef SYS_write
    SYS_write,
#endif
#ifdef SYS_readv
    SYS_readv,
#endif
#ifdef SYS_writev
    SYS_writev,
#endif
#ifdef SYS_pread64
    SYS_pread64,
#endif
#ifdef SYS_pwrite64
    SYS_pwrite64,
#endif
#ifdef SYS_preadv
    SYS_preadv,
#endif
#ifdef SYS_pwritev
    SYS_pwritev,
#endif
#ifdef SYS_preadv2
    SYS_preadv2,
#endif
#ifdef SYS_pwritev2
    SYS_pwritev2,
#endif
#ifdef SYS_lseek
    SYS_lseek,
#endif
#ifdef SYS_close
    SYS_close,
#endif
#ifdef SYS_close_range
    SYS_close_range,
#endif
#ifdef SYS_dup
    SYS_dup,
#endif
#ifdef SYS_dup3
    SYS_dup3,
#endif
#ifdef SYS_pipe2
    SYS_pipe2,
#endif
#ifdef SYS_fstat
    SYS_fstat,
#endif
#ifdef SYS_newfstatat
    SYS_newfstatat,
#endif
#ifdef SYS_statx
    SYS_statx,
#endif
#ifdef SYS_statfs
    SYS_statfs,
#endif
#ifdef SYS_fstatfs
    SYS_fstatfs,
#endif
#ifdef SYS_faccessat
    SYS_faccessat,
#endif
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
#ifdef SYS_readlinkat
    SYS_readlinkat,
#endif
#ifdef SYS_openat
    SYS_openat,
#endif
#ifdef SYS_openat2
    SYS_openat2,
#endif
#ifdef SYS_getdents64
    SYS_getdents64,
#endif
#ifdef SYS_getcwd
    SYS_getcwd,
#endif
#ifdef SYS_chdir
    SYS_chdir,
#endif
#ifdef SYS_fchdir
    SYS_fchdir,
#endif
#ifdef SYS_flock
    SYS_flock,
#endif
#ifdef SYS_fsync
    SYS_fsync,
#endif
#ifdef SYS_fdatasync
    SYS_fdatasync,
#endif
#ifdef SYS_sync_file_range
    SYS_sync_file_range,
#endif
#ifdef SYS_fallocate
    SYS_fallocate,
#endif
#ifdef SYS_ftruncate
    SYS_ftruncate,
#endif
#ifdef SYS_unlinkat
    SYS_unlinkat,
#endif
#ifdef SYS_mkdirat
    SYS_mkdirat,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
#ifdef SYS_renameat2
    SYS_renameat2,
#endif
#ifdef SYS_umask
    SYS_umask,
#endif
#ifdef SYS_fadvise64
    SYS_fadvise64,
#endif
#ifdef SYS_readahead
    SYS_readahead,
#endif
#ifdef SYS_copy_file_range
    SYS_copy_file_range,
#endif
#ifdef SYS_sendfile
    SYS_sendfile,
#endif
#ifdef SYS_mmap
    SYS_mmap,
#endif
#ifdef SYS_munmap
    SYS_munmap,
#endif
#ifdef SYS_mprotect
    SYS_mprotect,
#endif
#ifdef SYS_mremap
    SYS_mremap,
#endif
#ifdef SYS_brk
    SYS_brk,
#endif
#ifdef SYS_madvise
    SYS_madvise,
#endif
#ifdef SYS_msync
    SYS_msync,
#endif
#ifdef SYS_mincore
    SYS_mincore,
#endif
#ifdef SYS_mlock
    SYS_mlock,
#endif
#ifdef SYS_mlock2
    SYS_mlock2,
#endif
#ifdef SYS_munlock
    SYS_munlock,
#endif
#ifdef SYS_memfd_create
    SYS_memfd_create,
#endif
#ifdef SYS_membarrier
    SYS_membarrier,
#endif
#ifdef SYS_get_mempolicy
    SYS_get_mempolicy,
#endif
#ifdef SYS_futex
    SYS_futex,
#endif
#ifdef SYS_futex_waitv
    SYS_futex_waitv,
#endif
#ifdef SYS_set_robust_list
    SYS_set_robust_list,
#endif
#ifdef SYS_get_robust_list
    SYS_get_robust_list,
#endif
#ifdef SYS_rseq
    SYS_rseq,
#endif
#ifdef SYS_set_tid_address
    SYS_set_tid_address,
#endif
#ifdef SYS_rt_sigaction
    SYS_rt_sigaction,
#endif
#ifdef SYS_rt_sigprocmask
    SYS_rt_sigprocmask,
#endif
#ifdef SYS_rt_sigreturn
    SYS_rt_sigreturn,
#endif
#ifdef SYS_rt_sigpending
    SYS_rt_sigpending,
#endif
#ifdef SYS_rt_sigtimedwait
    SYS_rt_sigtimedwait,
#endif
#ifdef SYS_rt_sigsuspend
    SYS_rt_sigsuspend,
#endif
#ifdef SYS_sigaltstack
    SYS_sigaltstack,
#endif
#ifdef SYS_restart_syscall
    SYS_restart_syscall,
#endif
#ifdef SYS_sched_yield
    SYS_sched_yield,
#endif
#ifdef SYS_sched_getaffinity
    SYS_sched_getaffinity,
#endif
#ifdef SYS_sched_setaffinity
    SYS_sched_setaffinity,
#endif
#ifdef SYS_sched_getparam
    SYS_sched_getparam,
#endif
#ifdef SYS_sched_getscheduler
    SYS_sched_getscheduler,
#endif
#ifdef SYS_sched_get_priority_max
    SYS_sched_get_priority_max,
#endif
#ifdef SYS_sched_get_priority_min
    SYS_sched_get_priority_min,
#endif
#ifdef SYS_getcpu
    SYS_getcpu,
#endif
#ifdef SYS_getpriority
    SYS_getpriority,
#endif
#ifdef SYS_getpid
    SYS_getpid,
#endif
#ifdef SYS_gettid
    SYS_gettid,
#endif
#ifdef SYS_getppid
    SYS_getppid,
#endif
#ifdef SYS_getpgid
    SYS_getpgid,
#endif
#ifdef SYS_getsid
    SYS_getsid,
#endif
#ifdef SYS_getuid
    SYS_getuid,
#endif
#ifdef SYS_geteuid
    SYS_geteuid,
#endif
#ifdef SYS_getgid
    SYS_getgid,
#endif
#ifdef SYS_getegid
    SYS_getegid,
#endif
#ifdef SYS_getresuid
    SYS_getresuid,
#endif
#ifdef SYS_getresgid
    SYS_getresgid,
#endif
#ifdef SYS_getgroups
    SYS_getgroups,
#endif
#ifdef SYS_capget
    SYS_capget,
#endif
#ifdef SYS_uname
    SYS_uname,
#endif
#ifdef SYS_sysinfo
    SYS_sysinfo,
#endif
#ifdef SYS_times
    SYS_times,
#endif
#ifdef SYS_getrusage
    SYS_getrusage,
#endif
#ifdef SYS_getrlimit
    SYS_getrlimit,
#endif
#ifdef SYS_getrandom
    SYS_getrandom,
#endif
#ifdef SYS_clock_gettime
    SYS_clock_gettime,
#endif
#ifdef SYS_clock_getres
    SYS_clock_getres,
#endif
#ifdef SYS_clock_nanosleep
    SYS_clock_nanosleep,
#endif
#ifdef SYS_nanosleep
    SYS_nanosleep,
#endif
#ifdef SYS_gettimeofday
    SYS_gettimeofday,
#endif
#ifdef SYS_timer_create
    SYS_timer_create,
#endif
#ifdef SYS_timer_settime
    SYS_timer_settime,
#endif
#ifdef SYS_timer_gettime
    SYS_timer_gettime,
#endif
#ifdef SYS_timer_delete
    SYS_timer_delete,
#endif
#ifdef SYS_timer_getoverrun
    SYS_timer_getoverrun,
#endif
#ifdef SYS_timerfd_create
    SYS_timerfd_create,
#endif
#ifdef SYS_timerfd_settime
    SYS_timerfd_settime,
#endif
#ifdef SYS_timerfd_gettime
    SYS_timerfd_gettime,
#endif
#ifdef SYS_setitimer
    SYS_setitimer,
#endif
#ifdef SYS_getitimer
    SYS_getitimer,
#endif
#ifdef SYS_ppoll
    SYS_ppoll,
#endif
#ifdef SYS_pselect6
    SYS_pselect6,
#endif
#ifdef SYS_epoll_create1
    SYS_epoll_create1,
#endif
#ifdef SYS_epoll_ctl
    SYS_epoll_ctl,
#endif
#ifdef SYS_epoll_pwait
    SYS_epoll_pwait,
#endif
#ifdef SYS_epoll_pwait2
    SYS_epoll_pwait2,
#endif
#ifdef SYS_eventfd2
    SYS_eventfd2,
#endif
#ifdef SYS_signalfd4
    SYS_signalfd4,
#endif
#ifdef SYS_sendmsg
    SYS_sendmsg,
#endif
#ifdef SYS_recvmsg
    SYS_recvmsg,
#endif
#ifdef SYS_sendto
    SYS_sendto,
#endif
#ifdef SYS_recvfrom
    SYS_recvfrom,
#endif
#ifdef SYS_shutdown
    SYS_shutdown,
#endif
#ifdef SYS_getsockopt
    SYS_getsockopt,
#endif
#ifdef SYS_getsockname
    SYS_getsockname,
#endif
#ifdef SYS_getpeername
    SYS_getpeername,
#endif
#ifdef SYS_exit
    SYS_exit,
#endif
#ifdef SYS_exit_group
    SYS_exit_group,
#endif
#ifdef SYS_open
    SYS_open,
#endif
#ifdef SYS_stat
    SYS_stat,
#endif
#ifdef SYS_lstat
    SYS_lstat,
#endif
#ifdef SYS_access
    SYS_access,
#endif
#ifdef SYS_readlink
    SYS_readlink,
#endif
#ifdef SYS_getdents
    SYS_getdents,
#endif
#ifdef SYS_dup2
    SYS_dup2,
#endif
#ifdef SYS_pipe
    SYS_pipe,
#endif
#ifdef SYS_poll
    SYS_poll,
#endif
#ifdef SYS_select
    SYS_select,
#endif
#ifdef SYS_epoll_create
    SYS_epoll_create,
#endif
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
#ifdef SYS_eventfd
    SYS_eventfd,
#endif
#ifdef SYS_alarm
    SYS_alarm,
#endif
#ifdef SYS_pause
    SYS_pause,
#endif
#ifdef SYS_time
    SYS_time,
#endif
#ifdef SYS_unlink
    SYS_unlink,
#endif
#ifdef SYS_mkdir
    SYS_mkdir,
#endif
#ifdef SYS_rmdir
    SYS_rmdir,
#endif
#ifdef SYS_rename
    SYS_rename,
#endif
#ifdef SYS_arch_prctl
    SYS_arch_prctl,
#endif
#ifdef SYS_getpgrp
    SYS_getpgrp,
#endif
#ifdef SYS_creat
    SYS_creat,
#endif
};

/* In builds with sanitizers, whose reports start a program, and whose leak checker stops the threads of its process. */
static const uint32_t helper_processes[] = {
#ifdef SYS_clone
    SYS_clone,
#endif
#ifdef SYS_ptrace
    SYS_ptrace,
#endif
#ifdef SYS_vfork
    SYS_vfork,
#endif
#ifdef SYS_fork
    SYS_fork,
#endif
#ifdef SYS_execve
    SYS_execve,
#endif
#ifdef SYS_execveat
    SYS_execveat,
#endif
#ifdef SYS_wait4
    SYS_wait4,
#endif
#ifdef SYS_waitid
    SYS_waitid,
#endif
#ifdef SYS_pipe
    SYS_pipe,
#endif
#ifdef SYS_dup2
    SYS_dup2,
#endif
};

/* What no driver needs: other processes' memory, mounts, namespaces, keys, BPF, the network and every socket but pairs,
 * the kernel's own, others' files' owners. */
static const uint32_t helper_denied[] = {
#ifdef SYS_ptrace
    SYS_ptrace,
#endif
#ifdef SYS_process_vm_readv
    SYS_process_vm_readv,
#endif
#ifdef SYS_process_vm_writev
    SYS_process_vm_writev,
#endif
#ifdef SYS_process_madvise
    SYS_process_madvise,
#endif
#ifdef SYS_process_mrelease
    SYS_process_mrelease,
#endif
#ifdef SYS_kcmp
    SYS_kcmp,
#endif
#ifdef SYS_pidfd_getfd
    SYS_pidfd_getfd,
#endif
#ifdef SYS_pidfd_open
    SYS_pidfd_open,
#endif
#ifdef SYS_pidfd_send_signal
    SYS_pidfd_send_signal,
#endif
#ifdef SYS_tkill
    SYS_tkill,
#endif
#ifdef SYS_mount
    SYS_mount,
#endif
#ifdef SYS_umount2
    SYS_umount2,
#endif
#ifdef SYS_pivot_root
    SYS_pivot_root,
#endif
#ifdef SYS_chroot
    SYS_chroot,
#endif
#ifdef SYS_move_mount
    SYS_move_mount,
#endif
#ifdef SYS_open_tree
    SYS_open_tree,
#endif
#ifdef SYS_fsopen
    SYS_fsopen,
#endif
#ifdef SYS_fsconfig
    SYS_fsconfig,
#endif
#ifdef SYS_fsmount
    SYS_fsmount,
#endif
#ifdef SYS_fspick
    SYS_fspick,
#endif
#ifdef SYS_mount_setattr
    SYS_mount_setattr,
#endif
#ifdef SYS_setns
    SYS_setns,
#endif
#ifdef SYS_unshare
    SYS_unshare,
#endif
#ifdef SYS_add_key
    SYS_add_key,
#endif
#ifdef SYS_request_key
    SYS_request_key,
#endif
#ifdef SYS_keyctl
    SYS_keyctl,
#endif
#ifdef SYS_bpf
    SYS_bpf,
#endif
#ifdef SYS_perf_event_open
    SYS_perf_event_open,
#endif
#ifdef SYS_userfaultfd
    SYS_userfaultfd,
#endif
#ifdef SYS_io_uring_setup
    SYS_io_uring_setup,
#endif
#ifdef SYS_io_uring_enter
    SYS_io_uring_enter,
#endif
#ifdef SYS_io_uring_register
    SYS_io_uring_register,
#endif
#ifdef SYS_socket
    SYS_socket,
#endif
#ifdef SYS_connect
    SYS_connect,
#endif
#ifdef SYS_bind
    SYS_bind,
#endif
#ifdef SYS_listen
    SYS_listen,
#endif
#ifdef SYS_accept
    SYS_accept,
#endif
#ifdef SYS_accept4
    SYS_accept4,
#endif
#ifdef SYS_shmget
    SYS_shmget,
#endif
#ifdef SYS_shmat
    SYS_shmat,
#endif
#ifdef SYS_shmctl
    SYS_shmctl,
#endif
#ifdef SYS_msgget
    SYS_msgget,
#endif
#ifdef SYS_msgsnd
    SYS_msgsnd,
#endif
#ifdef SYS_msgrcv
    SYS_msgrcv,
#endif
#ifdef SYS_msgctl
    SYS_msgctl,
#endif
#ifdef SYS_semget
    SYS_semget,
#endif
#ifdef SYS_semop
    SYS_semop,
#endif
#ifdef SYS_semctl
    SYS_semctl,
#endif
#ifdef SYS_semtimedop
    SYS_semtimedop,
#endif
#ifdef SYS_mq_open
    SYS_mq_open,
#endif
#ifdef SYS_mq_unlink
    SYS_mq_unlink,
#endif
#ifdef SYS_init_module
    SYS_init_module,
#endif
#ifdef SYS_finit_module
    SYS_finit_module,
#endif
#ifdef SYS_delete_module
    SYS_delete_module,
#endif
#ifdef SYS_kexec_load
    SYS_kexec_load,
#endif
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_reboot
    SYS_reboot,
#endif
#ifdef SYS_swapon
    SYS_swapon,
#endif
#ifdef SYS_swapoff
    SYS_swapoff,
#endif
#ifdef SYS_quotactl
    SYS_quotactl,
#endif
#ifdef SYS_quotactl_fd
    SYS_quotactl_fd,
#endif
#ifdef SYS_acct
    SYS_acct,
#endif
#ifdef SYS_syslog
    SYS_syslog,
#endif
#ifdef SYS_sethostname
    SYS_sethostname,
#endif
#ifdef SYS_setdomainname
    SYS_setdomainname,
#endif
#ifdef SYS_settimeofday
    SYS_settimeofday,
#endif
#ifdef SYS_clock_settime
    SYS_clock_settime,
#endif
#ifdef SYS_adjtimex
    SYS_adjtimex,
#endif
#ifdef SYS_clock_adjtime
    SYS_clock_adjtime,
#endif
#ifdef SYS_vhangup
    SYS_vhangup,
#endif
#ifdef SYS_open_by_handle_at
    SYS_open_by_handle_at,
#endif
#ifdef SYS_name_to_handle_at
    SYS_name_to_handle_at,
#endif
#ifdef SYS_fanotify_init
    SYS_fanotify_init,
#endif
#ifdef SYS_lookup_dcookie
    SYS_lookup_dcookie,
#endif
#ifdef SYS_nfsservctl
    SYS_nfsservctl,
#endif
#ifdef SYS_personality
    SYS_personality,
#endif
#ifdef SYS_setpriority
    SYS_setpriority,
#endif
#ifdef SYS_sched_setscheduler
    SYS_sched_setscheduler,
#endif
#ifdef SYS_sched_setparam
    SYS_sched_setparam,
#endif
#ifdef SYS_sched_setattr
    SYS_sched_setattr,
#endif
#ifdef SYS_ioprio_set
    SYS_ioprio_set,
#endif
#ifdef SYS_migrate_pages
    SYS_migrate_pages,
#endif
#ifdef SYS_move_pages
    SYS_move_pages,
#endif
#ifdef SYS_setuid
    SYS_setuid,
#endif
#ifdef SYS_setgid
    SYS_setgid,
#endif
#ifdef SYS_setreuid
    SYS_setreuid,
#endif
#ifdef SYS_setregid
    SYS_setregid,
#endif
#ifdef SYS_setresuid
    SYS_setresuid,
#endif
#ifdef SYS_setresgid
    SYS_setresgid,
#endif
#ifdef SYS_setgroups
    SYS_setgroups,
#endif
#ifdef SYS_setfsuid
    SYS_setfsuid,
#endif
#ifdef SYS_setfsgid
    SYS_setfsgid,
#endif
#ifdef SYS_capset
    SYS_capset,
#endif
#ifdef SYS_chmod
    SYS_chmod,
#endif
#ifdef SYS_fchmodat
    SYS_fchmodat,
#endif
#ifdef SYS_utimensat
    SYS_utimensat,
#endif
#ifdef SYS_truncate
    SYS_truncate,
#endif
#ifdef SYS_fchown
    SYS_fchown,
#endif
#ifdef SYS_fchownat
    SYS_fchownat,
#endif
#ifdef SYS_setxattr
    SYS_setxattr,
#endif
#ifdef SYS_lsetxattr
    SYS_lsetxattr,
#endif
#ifdef SYS_fsetxattr
    SYS_fsetxattr,
#endif
#ifdef SYS_removexattr
    SYS_removexattr,
#endif
#ifdef SYS_lremovexattr
    SYS_lremovexattr,
#endif
#ifdef SYS_fremovexattr
    SYS_fremovexattr,
#endif
#ifdef SYS_chown
    SYS_chown,
#endif
#ifdef SYS_lchown
    SYS_lchown,
#endif
#ifdef SYS_iopl
    SYS_iopl,
#endif
#ifdef SYS_ioperm
    SYS_ioperm,
#endif
#ifdef SYS_modify_ldt
    SYS_modify_ldt,
#endif
#ifdef SYS_utime
    SYS_utime,
#endif
#ifdef SYS_utimes
    SYS_utimes,
#endif
#ifdef SYS_futimesat
    SYS_futimesat,
#endif
};

#endif
